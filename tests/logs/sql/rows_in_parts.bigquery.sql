SELECT
  `t2`.`query_id`,
  `t2`.`doc_id`,
  CAST(`t2`.`place` AS INT64) AS `place`,
  `t2`.`impressions` AS `rows`,
  `t2`.`impressions`,
  `t2`.`clicks`,
  `t2`.`judge_impressions`,
  `t2`.`judge_clicks`
FROM (
  SELECT
    `t1`.`query_id`,
    `t1`.`doc_id`,
    `t1`.`place`,
    COUNT(*) AS `impressions`,
    COUNTIF(`t1`.`clicked`) AS `clicks`,
    COUNTIF(`t1`.`judged`) AS `judge_impressions`,
    COUNTIF(`t1`.`judged` AND `t1`.`clicked`) AS `judge_clicks`
  FROM (
    SELECT
      `t0`.`query_id`,
      `t0`.`doc_id`,
      `t0`.`click` AS `clicked`,
      (
        (
          (
            (
              (
                (
                  (
                    (
                      (
                        (
                          `t0`.`session_id` & 2147483647
                        ) ^ 250172716
                      ) * (
                        (
                          (
                            `t0`.`session_id` >> 31
                          ) & 2147483647
                        ) ^ 1829599419
                      )
                    ) >> 31
                  ) ^ (
                    (
                      (
                        (
                          `t0`.`session_id` & 2147483647
                        ) ^ 250172716
                      ) * (
                        (
                          (
                            `t0`.`session_id` >> 31
                          ) & 2147483647
                        ) ^ 1829599419
                      )
                    ) & 2147483647
                  ) ^ 514586547
                ) * 1569905305
              ) >> 31
            ) ^ (
              (
                (
                  (
                    (
                      (
                        (
                          `t0`.`session_id` & 2147483647
                        ) ^ 250172716
                      ) * (
                        (
                          (
                            `t0`.`session_id` >> 31
                          ) & 2147483647
                        ) ^ 1829599419
                      )
                    ) >> 31
                  ) ^ (
                    (
                      (
                        (
                          `t0`.`session_id` & 2147483647
                        ) ^ 250172716
                      ) * (
                        (
                          (
                            `t0`.`session_id` >> 31
                          ) & 2147483647
                        ) ^ 1829599419
                      )
                    ) & 2147483647
                  ) ^ 514586547
                ) * 1569905305
              ) & 2147483647
            ) ^ 1449980304
          ) * 1098346243
        ) & 2147483647
      ) < 429496729 AS `judged`,
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
        WHEN `t0`.`click` IS NULL
        THEN -4
        ELSE `t0`.`rank`
      END AS `place`
    FROM `log` AS `t0`
  ) AS `t1`
  GROUP BY
    1,
    2,
    3
) AS `t2`
