SELECT
  "t2"."query_id",
  "t2"."doc_id",
  CAST("t2"."place" AS BIGINT) AS "place",
  "t2"."impressions" AS "rows",
  "t2"."impressions",
  "t2"."clicks"
FROM (
  SELECT
    "t1"."query_id",
    "t1"."doc_id",
    "t1"."place",
    COUNT(*) AS "impressions",
    COUNT(*) FILTER(WHERE
      "t1"."clicked") AS "clicks"
  FROM (
    SELECT
      "t0"."query_id",
      "t0"."doc_id",
      "t0"."click" AS "clicked",
      CASE
        WHEN "t0"."query_id" IS NULL
        THEN -1
        WHEN "t0"."doc_id" IS NULL
        THEN -2
        WHEN (
          "t0"."rank" IS NULL
        ) OR (
          "t0"."rank" < 1
        )
        THEN -3
        WHEN "t0"."click" IS NULL
        THEN -4
        ELSE "t0"."rank"
      END AS "place"
    FROM "log" AS "t0"
    WHERE
      "t0"."device" = 'mobile'
  ) AS "t1"
  GROUP BY
    1,
    2,
    3
) AS "t2"
