SELECT
  *
FROM (
  SELECT
    "t3"."query_id",
    "t3"."doc_id",
    "t3"."place",
    CAST(CAST(SUM("t3"."rows") AS DECIMAL(38, 0)) AS BIGINT) AS "rows",
    COUNT(*) AS "impressions",
    COUNT(*) FILTER(WHERE
      "t3"."clicked") AS "clicks",
    COUNT(*) FILTER(WHERE
      "t3"."judged") AS "judge_impressions",
    COUNT(*) FILTER(WHERE
      "t3"."judged" AND "t3"."clicked") AS "judge_clicks"
  FROM (
    SELECT
      "t2"."query_id",
      "t2"."doc_id",
      "t2"."rows",
      "t2"."clicked",
      IF((
        "t2"."place" > 0
      ) AND (
        "t2"."doc_id" <> "t2"."other"
      ), -7, "t2"."place") AS "place",
      LOWER(TO_HEX(MD5(TO_UTF8(CONCAT('0:', "t2"."session_id"))))) < '3333333333333400' AS "judged"
    FROM (
      SELECT
        "t1"."session_id",
        "t1"."query_id",
        "t1"."place",
        COUNT(*) AS "rows",
        MIN("t1"."doc_id") AS "doc_id",
        MAX("t1"."doc_id") AS "other",
        COUNT(*) FILTER(WHERE
          "t1"."clicked") > 0 AS "clicked"
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
      GROUP BY
        1,
        2,
        3
    ) AS "t2"
  ) AS "t3"
  GROUP BY
    1,
    2,
    3
) AS "t4"
