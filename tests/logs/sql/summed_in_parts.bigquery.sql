SELECT
  `t2`.`query_id`,
  `t2`.`doc_id`,
  CAST(`t2`.`place` AS INT64) AS `place`,
  `t2`.`rows`,
  `t2`.`impressions`,
  `t2`.`clicks`,
  `t2`.`judge_impressions`,
  `t2`.`judge_clicks`
FROM (
  SELECT
    `t1`.`query_id`,
    `t1`.`doc_id`,
    `t1`.`place`,
    COUNT(*) AS `rows`,
    CAST(CAST(SUM(`t1`.`impressions`) AS NUMERIC) AS INT64) AS `impressions`,
    CAST(CAST(SUM(`t1`.`clicks`) AS NUMERIC) AS INT64) AS `clicks`,
    CAST(CAST(SUM(IF(`t1`.`judged`, `t1`.`impressions`, 0)) AS NUMERIC) AS INT64) AS `judge_impressions`,
    CAST(CAST(SUM(IF(`t1`.`judged`, `t1`.`clicks`, 0)) AS NUMERIC) AS INT64) AS `judge_clicks`
  FROM (
    SELECT
      `t0`.`query_id`,
      `t0`.`doc_id`,
      `t0`.`impressions`,
      `t0`.`clicks`,
      `t0`.`part` = 'judge' AS `judged`,
      CASE
        WHEN `t0`.`query_id` IS NULL
        THEN -1
        WHEN `t0`.`doc_id` IS NULL
        THEN -2
        WHEN (
          `t0`.`rank` IS NULL
        ) OR (
          `t0`.`rank` < 1
        )
        THEN -3
        WHEN (
          `t0`.`impressions` IS NULL
        )
        OR (
          `t0`.`impressions` < 0
        )
        OR (
          `t0`.`impressions` > 4611686018427387904
        )
        THEN -4
        WHEN (
          `t0`.`clicks` IS NULL
        )
        OR (
          `t0`.`clicks` < 0
        )
        OR (
          `t0`.`clicks` > 4611686018427387904
        )
        THEN -5
        WHEN `t0`.`clicks` > `t0`.`impressions`
        THEN -6
        WHEN (
          `t0`.`part` IS NULL
        ) OR NOT (
          `t0`.`part` IN ('learn', 'judge')
        )
        THEN -7
        ELSE `t0`.`rank`
      END AS `place`
    FROM `log` AS `t0`
  ) AS `t1`
  GROUP BY
    1,
    2,
    3
) AS `t2`
