SELECT
  "t2"."session_id",
  "t2"."query_id",
  "t2"."doc_id",
  MIN("t2"."rank") AS "first",
  MAX("t2"."rank") AS "last"
FROM (
  SELECT
    "t1"."query_id",
    "t1"."doc_id",
    "t1"."clicked",
    "t1"."session_id",
    "t1"."place" AS "rank"
  FROM (
    SELECT
      "t0"."query_id",
      IF(
        CAST(IF(
          "t0"."rank" BETWEEN 1 AND 2147483647
          AND (
            (
              "t0"."rank" - "t0"."rank"
            ) = 0
          ),
          "t0"."rank",
          CAST(NULL AS DOUBLE)
        ) AS BIGINT) > 10,
        CAST(NULL AS BIGINT),
        "t0"."doc_id"
      ) AS "doc_id",
      "t0"."click" = 1 AS "clicked",
      "t0"."session_id",
      CASE
        WHEN "t0"."query_id" IS NULL
        THEN -1
        WHEN "t0"."doc_id" IS NULL
        THEN -2
        WHEN (
          "t0"."rank" IS NULL
        )
        OR NOT (
          "t0"."rank" BETWEEN 1 AND 2147483647
          AND (
            (
              "t0"."rank" - "t0"."rank"
            ) = 0
          )
        )
        OR (
          CAST(IF(
            "t0"."rank" BETWEEN 1 AND 2147483647
            AND (
              (
                "t0"."rank" - "t0"."rank"
              ) = 0
            ),
            "t0"."rank",
            CAST(NULL AS DOUBLE)
          ) AS BIGINT) <> "t0"."rank"
        )
        THEN -3
        WHEN "t0"."session_id" IS NULL
        THEN -4
        WHEN "t0"."click" IS NULL
        THEN -5
        WHEN NOT (
          "t0"."click" IN (0, 1)
        )
        THEN -6
        WHEN CAST(IF(
          "t0"."rank" BETWEEN 1 AND 2147483647
          AND (
            (
              "t0"."rank" - "t0"."rank"
            ) = 0
          ),
          "t0"."rank",
          CAST(NULL AS DOUBLE)
        ) AS BIGINT) > 10
        THEN 0
        ELSE CAST(IF(
          "t0"."rank" BETWEEN 1 AND 2147483647
          AND (
            (
              "t0"."rank" - "t0"."rank"
            ) = 0
          ),
          "t0"."rank",
          CAST(NULL AS DOUBLE)
        ) AS BIGINT)
      END AS "place"
    FROM "log" AS "t0"
    WHERE
      "t0"."day" >= FROM_ISO8601_DATE('2026-01-31')
  ) AS "t1"
  WHERE
    "t1"."place" > 0 AND TRUE
) AS "t2"
GROUP BY
  1,
  2,
  3
