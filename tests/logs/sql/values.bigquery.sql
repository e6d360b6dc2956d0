SELECT
  `t5`.`query_id`,
  `t5`.`doc_id`,
  CAST(`t5`.`place` AS INT64) AS `place`,
  `t5`.`rows`,
  `t5`.`impressions`,
  `t5`.`clicks`
FROM (
  SELECT
    `t4`.`query_id`,
    `t4`.`doc_id`,
    `t4`.`place`,
    CAST(CAST(SUM(`t4`.`rows`) AS NUMERIC) AS INT64) AS `rows`,
    COUNT(*) AS `impressions`,
    COUNTIF(`t4`.`clicked`) AS `clicks`
  FROM (
    SELECT
      `t3`.`query_id`,
      `t3`.`doc_id`,
      `t3`.`rows`,
      `t3`.`clicked`,
      IF((
        `t3`.`place` > 0
      ) AND (
        `t3`.`doc_id` <> `t3`.`other`
      ), -6, `t3`.`place`) AS `place`
    FROM (
      SELECT
        `t2`.`session_id`,
        `t2`.`query_id`,
        `t2`.`place`,
        COUNT(*) AS `rows`,
        MIN(`t2`.`doc_id`) AS `doc_id`,
        MAX(`t2`.`doc_id`) AS `other`,
        COUNTIF(`t2`.`clicked`) > 0 AS `clicked`
      FROM (
        SELECT
          `t1`.`query_id`,
          `t1`.`doc_id`,
          CASE
            WHEN `t1`.`feedback_revenue` <= 0
            THEN FALSE
            WHEN ieee_divide(`t1`.`feedback_revenue`, 200.0) >= 1
            THEN TRUE
            ELSE (
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
                                  (
                                    (
                                      (
                                        (
                                          CAST(ASCII(
                                            SUBSTRING(
                                              TO_HEX(
                                                MD5(
                                                  CONCAT(
                                                    '0:',
                                                    CONCAT(
                                                      CONCAT(
                                                        CONCAT(
                                                          CONCAT(
                                                            CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                            '|'
                                                          ),
                                                          CAST(`t1`.`doc_id` AS STRING)
                                                        ),
                                                        '|'
                                                      ),
                                                      CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                    )
                                                  )
                                                )
                                              ),
                                              IF(
                                                (
                                                  0 + 1
                                                ) >= 1,
                                                0 + 1,
                                                0 + 1 + LENGTH(
                                                  TO_HEX(
                                                    MD5(
                                                      CONCAT(
                                                        '0:',
                                                        CONCAT(
                                                          CONCAT(
                                                            CONCAT(
                                                              CONCAT(
                                                                CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                                '|'
                                                              ),
                                                              CAST(`t1`.`doc_id` AS STRING)
                                                            ),
                                                            '|'
                                                          ),
                                                          CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                        )
                                                      )
                                                    )
                                                  )
                                                )
                                              ),
                                              1
                                            )
                                          ) AS FLOAT64) - IF(
                                            CAST(ASCII(
                                              SUBSTRING(
                                                TO_HEX(
                                                  MD5(
                                                    CONCAT(
                                                      '0:',
                                                      CONCAT(
                                                        CONCAT(
                                                          CONCAT(
                                                            CONCAT(
                                                              CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                              '|'
                                                            ),
                                                            CAST(`t1`.`doc_id` AS STRING)
                                                          ),
                                                          '|'
                                                        ),
                                                        CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                      )
                                                    )
                                                  )
                                                ),
                                                IF(
                                                  (
                                                    0 + 1
                                                  ) >= 1,
                                                  0 + 1,
                                                  0 + 1 + LENGTH(
                                                    TO_HEX(
                                                      MD5(
                                                        CONCAT(
                                                          '0:',
                                                          CONCAT(
                                                            CONCAT(
                                                              CONCAT(
                                                                CONCAT(
                                                                  CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                                  '|'
                                                                ),
                                                                CAST(`t1`.`doc_id` AS STRING)
                                                              ),
                                                              '|'
                                                            ),
                                                            CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                          )
                                                        )
                                                      )
                                                    )
                                                  )
                                                ),
                                                1
                                              )
                                            ) AS FLOAT64) > 90,
                                            87.0,
                                            48.0
                                          )
                                        ) * 16.0
                                      ) + (
                                        CAST(ASCII(
                                          SUBSTRING(
                                            TO_HEX(
                                              MD5(
                                                CONCAT(
                                                  '0:',
                                                  CONCAT(
                                                    CONCAT(
                                                      CONCAT(
                                                        CONCAT(
                                                          CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                          '|'
                                                        ),
                                                        CAST(`t1`.`doc_id` AS STRING)
                                                      ),
                                                      '|'
                                                    ),
                                                    CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                  )
                                                )
                                              )
                                            ),
                                            IF(
                                              (
                                                1 + 1
                                              ) >= 1,
                                              1 + 1,
                                              1 + 1 + LENGTH(
                                                TO_HEX(
                                                  MD5(
                                                    CONCAT(
                                                      '0:',
                                                      CONCAT(
                                                        CONCAT(
                                                          CONCAT(
                                                            CONCAT(
                                                              CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                              '|'
                                                            ),
                                                            CAST(`t1`.`doc_id` AS STRING)
                                                          ),
                                                          '|'
                                                        ),
                                                        CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                      )
                                                    )
                                                  )
                                                )
                                              )
                                            ),
                                            1
                                          )
                                        ) AS FLOAT64) - IF(
                                          CAST(ASCII(
                                            SUBSTRING(
                                              TO_HEX(
                                                MD5(
                                                  CONCAT(
                                                    '0:',
                                                    CONCAT(
                                                      CONCAT(
                                                        CONCAT(
                                                          CONCAT(
                                                            CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                            '|'
                                                          ),
                                                          CAST(`t1`.`doc_id` AS STRING)
                                                        ),
                                                        '|'
                                                      ),
                                                      CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                    )
                                                  )
                                                )
                                              ),
                                              IF(
                                                (
                                                  1 + 1
                                                ) >= 1,
                                                1 + 1,
                                                1 + 1 + LENGTH(
                                                  TO_HEX(
                                                    MD5(
                                                      CONCAT(
                                                        '0:',
                                                        CONCAT(
                                                          CONCAT(
                                                            CONCAT(
                                                              CONCAT(
                                                                CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                                '|'
                                                              ),
                                                              CAST(`t1`.`doc_id` AS STRING)
                                                            ),
                                                            '|'
                                                          ),
                                                          CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                        )
                                                      )
                                                    )
                                                  )
                                                )
                                              ),
                                              1
                                            )
                                          ) AS FLOAT64) > 90,
                                          87.0,
                                          48.0
                                        )
                                      )
                                    ) * 16.0
                                  ) + (
                                    CAST(ASCII(
                                      SUBSTRING(
                                        TO_HEX(
                                          MD5(
                                            CONCAT(
                                              '0:',
                                              CONCAT(
                                                CONCAT(
                                                  CONCAT(
                                                    CONCAT(
                                                      CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                      '|'
                                                    ),
                                                    CAST(`t1`.`doc_id` AS STRING)
                                                  ),
                                                  '|'
                                                ),
                                                CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                              )
                                            )
                                          )
                                        ),
                                        IF(
                                          (
                                            2 + 1
                                          ) >= 1,
                                          2 + 1,
                                          2 + 1 + LENGTH(
                                            TO_HEX(
                                              MD5(
                                                CONCAT(
                                                  '0:',
                                                  CONCAT(
                                                    CONCAT(
                                                      CONCAT(
                                                        CONCAT(
                                                          CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                          '|'
                                                        ),
                                                        CAST(`t1`.`doc_id` AS STRING)
                                                      ),
                                                      '|'
                                                    ),
                                                    CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                  )
                                                )
                                              )
                                            )
                                          )
                                        ),
                                        1
                                      )
                                    ) AS FLOAT64) - IF(
                                      CAST(ASCII(
                                        SUBSTRING(
                                          TO_HEX(
                                            MD5(
                                              CONCAT(
                                                '0:',
                                                CONCAT(
                                                  CONCAT(
                                                    CONCAT(
                                                      CONCAT(
                                                        CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                        '|'
                                                      ),
                                                      CAST(`t1`.`doc_id` AS STRING)
                                                    ),
                                                    '|'
                                                  ),
                                                  CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                )
                                              )
                                            )
                                          ),
                                          IF(
                                            (
                                              2 + 1
                                            ) >= 1,
                                            2 + 1,
                                            2 + 1 + LENGTH(
                                              TO_HEX(
                                                MD5(
                                                  CONCAT(
                                                    '0:',
                                                    CONCAT(
                                                      CONCAT(
                                                        CONCAT(
                                                          CONCAT(
                                                            CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                            '|'
                                                          ),
                                                          CAST(`t1`.`doc_id` AS STRING)
                                                        ),
                                                        '|'
                                                      ),
                                                      CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                    )
                                                  )
                                                )
                                              )
                                            )
                                          ),
                                          1
                                        )
                                      ) AS FLOAT64) > 90,
                                      87.0,
                                      48.0
                                    )
                                  )
                                ) * 16.0
                              ) + (
                                CAST(ASCII(
                                  SUBSTRING(
                                    TO_HEX(
                                      MD5(
                                        CONCAT(
                                          '0:',
                                          CONCAT(
                                            CONCAT(
                                              CONCAT(
                                                CONCAT(
                                                  CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                  '|'
                                                ),
                                                CAST(`t1`.`doc_id` AS STRING)
                                              ),
                                              '|'
                                            ),
                                            CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                          )
                                        )
                                      )
                                    ),
                                    IF(
                                      (
                                        3 + 1
                                      ) >= 1,
                                      3 + 1,
                                      3 + 1 + LENGTH(
                                        TO_HEX(
                                          MD5(
                                            CONCAT(
                                              '0:',
                                              CONCAT(
                                                CONCAT(
                                                  CONCAT(
                                                    CONCAT(
                                                      CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                      '|'
                                                    ),
                                                    CAST(`t1`.`doc_id` AS STRING)
                                                  ),
                                                  '|'
                                                ),
                                                CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                              )
                                            )
                                          )
                                        )
                                      )
                                    ),
                                    1
                                  )
                                ) AS FLOAT64) - IF(
                                  CAST(ASCII(
                                    SUBSTRING(
                                      TO_HEX(
                                        MD5(
                                          CONCAT(
                                            '0:',
                                            CONCAT(
                                              CONCAT(
                                                CONCAT(
                                                  CONCAT(
                                                    CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                    '|'
                                                  ),
                                                  CAST(`t1`.`doc_id` AS STRING)
                                                ),
                                                '|'
                                              ),
                                              CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                            )
                                          )
                                        )
                                      ),
                                      IF(
                                        (
                                          3 + 1
                                        ) >= 1,
                                        3 + 1,
                                        3 + 1 + LENGTH(
                                          TO_HEX(
                                            MD5(
                                              CONCAT(
                                                '0:',
                                                CONCAT(
                                                  CONCAT(
                                                    CONCAT(
                                                      CONCAT(
                                                        CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                        '|'
                                                      ),
                                                      CAST(`t1`.`doc_id` AS STRING)
                                                    ),
                                                    '|'
                                                  ),
                                                  CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                                )
                                              )
                                            )
                                          )
                                        )
                                      ),
                                      1
                                    )
                                  ) AS FLOAT64) > 90,
                                  87.0,
                                  48.0
                                )
                              )
                            ) * 16.0
                          ) + (
                            CAST(ASCII(
                              SUBSTRING(
                                TO_HEX(
                                  MD5(
                                    CONCAT(
                                      '0:',
                                      CONCAT(
                                        CONCAT(
                                          CONCAT(
                                            CONCAT(
                                              CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                              '|'
                                            ),
                                            CAST(`t1`.`doc_id` AS STRING)
                                          ),
                                          '|'
                                        ),
                                        CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                      )
                                    )
                                  )
                                ),
                                IF(
                                  (
                                    4 + 1
                                  ) >= 1,
                                  4 + 1,
                                  4 + 1 + LENGTH(
                                    TO_HEX(
                                      MD5(
                                        CONCAT(
                                          '0:',
                                          CONCAT(
                                            CONCAT(
                                              CONCAT(
                                                CONCAT(
                                                  CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                  '|'
                                                ),
                                                CAST(`t1`.`doc_id` AS STRING)
                                              ),
                                              '|'
                                            ),
                                            CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                          )
                                        )
                                      )
                                    )
                                  )
                                ),
                                1
                              )
                            ) AS FLOAT64) - IF(
                              CAST(ASCII(
                                SUBSTRING(
                                  TO_HEX(
                                    MD5(
                                      CONCAT(
                                        '0:',
                                        CONCAT(
                                          CONCAT(
                                            CONCAT(
                                              CONCAT(
                                                CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                '|'
                                              ),
                                              CAST(`t1`.`doc_id` AS STRING)
                                            ),
                                            '|'
                                          ),
                                          CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                        )
                                      )
                                    )
                                  ),
                                  IF(
                                    (
                                      4 + 1
                                    ) >= 1,
                                    4 + 1,
                                    4 + 1 + LENGTH(
                                      TO_HEX(
                                        MD5(
                                          CONCAT(
                                            '0:',
                                            CONCAT(
                                              CONCAT(
                                                CONCAT(
                                                  CONCAT(
                                                    CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                    '|'
                                                  ),
                                                  CAST(`t1`.`doc_id` AS STRING)
                                                ),
                                                '|'
                                              ),
                                              CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                            )
                                          )
                                        )
                                      )
                                    )
                                  ),
                                  1
                                )
                              ) AS FLOAT64) > 90,
                              87.0,
                              48.0
                            )
                          )
                        ) * 16.0
                      ) + (
                        CAST(ASCII(
                          SUBSTRING(
                            TO_HEX(
                              MD5(
                                CONCAT(
                                  '0:',
                                  CONCAT(
                                    CONCAT(
                                      CONCAT(
                                        CONCAT(
                                          CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                          '|'
                                        ),
                                        CAST(`t1`.`doc_id` AS STRING)
                                      ),
                                      '|'
                                    ),
                                    CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                  )
                                )
                              )
                            ),
                            IF(
                              (
                                5 + 1
                              ) >= 1,
                              5 + 1,
                              5 + 1 + LENGTH(
                                TO_HEX(
                                  MD5(
                                    CONCAT(
                                      '0:',
                                      CONCAT(
                                        CONCAT(
                                          CONCAT(
                                            CONCAT(
                                              CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                              '|'
                                            ),
                                            CAST(`t1`.`doc_id` AS STRING)
                                          ),
                                          '|'
                                        ),
                                        CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                      )
                                    )
                                  )
                                )
                              )
                            ),
                            1
                          )
                        ) AS FLOAT64) - IF(
                          CAST(ASCII(
                            SUBSTRING(
                              TO_HEX(
                                MD5(
                                  CONCAT(
                                    '0:',
                                    CONCAT(
                                      CONCAT(
                                        CONCAT(
                                          CONCAT(
                                            CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                            '|'
                                          ),
                                          CAST(`t1`.`doc_id` AS STRING)
                                        ),
                                        '|'
                                      ),
                                      CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                    )
                                  )
                                )
                              ),
                              IF(
                                (
                                  5 + 1
                                ) >= 1,
                                5 + 1,
                                5 + 1 + LENGTH(
                                  TO_HEX(
                                    MD5(
                                      CONCAT(
                                        '0:',
                                        CONCAT(
                                          CONCAT(
                                            CONCAT(
                                              CONCAT(
                                                CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                                '|'
                                              ),
                                              CAST(`t1`.`doc_id` AS STRING)
                                            ),
                                            '|'
                                          ),
                                          CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                        )
                                      )
                                    )
                                  )
                                )
                              ),
                              1
                            )
                          ) AS FLOAT64) > 90,
                          87.0,
                          48.0
                        )
                      )
                    ) * 16.0
                  ) + (
                    CAST(ASCII(
                      SUBSTRING(
                        TO_HEX(
                          MD5(
                            CONCAT(
                              '0:',
                              CONCAT(
                                CONCAT(
                                  CONCAT(
                                    CONCAT(
                                      CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                      '|'
                                    ),
                                    CAST(`t1`.`doc_id` AS STRING)
                                  ),
                                  '|'
                                ),
                                CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                              )
                            )
                          )
                        ),
                        IF(
                          (
                            6 + 1
                          ) >= 1,
                          6 + 1,
                          6 + 1 + LENGTH(
                            TO_HEX(
                              MD5(
                                CONCAT(
                                  '0:',
                                  CONCAT(
                                    CONCAT(
                                      CONCAT(
                                        CONCAT(
                                          CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                          '|'
                                        ),
                                        CAST(`t1`.`doc_id` AS STRING)
                                      ),
                                      '|'
                                    ),
                                    CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                  )
                                )
                              )
                            )
                          )
                        ),
                        1
                      )
                    ) AS FLOAT64) - IF(
                      CAST(ASCII(
                        SUBSTRING(
                          TO_HEX(
                            MD5(
                              CONCAT(
                                '0:',
                                CONCAT(
                                  CONCAT(
                                    CONCAT(
                                      CONCAT(
                                        CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                        '|'
                                      ),
                                      CAST(`t1`.`doc_id` AS STRING)
                                    ),
                                    '|'
                                  ),
                                  CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                )
                              )
                            )
                          ),
                          IF(
                            (
                              6 + 1
                            ) >= 1,
                            6 + 1,
                            6 + 1 + LENGTH(
                              TO_HEX(
                                MD5(
                                  CONCAT(
                                    '0:',
                                    CONCAT(
                                      CONCAT(
                                        CONCAT(
                                          CONCAT(
                                            CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                            '|'
                                          ),
                                          CAST(`t1`.`doc_id` AS STRING)
                                        ),
                                        '|'
                                      ),
                                      CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                    )
                                  )
                                )
                              )
                            )
                          ),
                          1
                        )
                      ) AS FLOAT64) > 90,
                      87.0,
                      48.0
                    )
                  )
                ) * 16.0
              ) + (
                CAST(ASCII(
                  SUBSTRING(
                    TO_HEX(
                      MD5(
                        CONCAT(
                          '0:',
                          CONCAT(
                            CONCAT(
                              CONCAT(
                                CONCAT(
                                  CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                  '|'
                                ),
                                CAST(`t1`.`doc_id` AS STRING)
                              ),
                              '|'
                            ),
                            CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                          )
                        )
                      )
                    ),
                    IF(
                      (
                        7 + 1
                      ) >= 1,
                      7 + 1,
                      7 + 1 + LENGTH(
                        TO_HEX(
                          MD5(
                            CONCAT(
                              '0:',
                              CONCAT(
                                CONCAT(
                                  CONCAT(
                                    CONCAT(
                                      CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                      '|'
                                    ),
                                    CAST(`t1`.`doc_id` AS STRING)
                                  ),
                                  '|'
                                ),
                                CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                              )
                            )
                          )
                        )
                      )
                    ),
                    1
                  )
                ) AS FLOAT64) - IF(
                  CAST(ASCII(
                    SUBSTRING(
                      TO_HEX(
                        MD5(
                          CONCAT(
                            '0:',
                            CONCAT(
                              CONCAT(
                                CONCAT(
                                  CONCAT(
                                    CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                    '|'
                                  ),
                                  CAST(`t1`.`doc_id` AS STRING)
                                ),
                                '|'
                              ),
                              CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                            )
                          )
                        )
                      ),
                      IF(
                        (
                          7 + 1
                        ) >= 1,
                        7 + 1,
                        7 + 1 + LENGTH(
                          TO_HEX(
                            MD5(
                              CONCAT(
                                '0:',
                                CONCAT(
                                  CONCAT(
                                    CONCAT(
                                      CONCAT(
                                        CONCAT(CONCAT(CONCAT(CONCAT('value', '|'), `t1`.`drawn_by`), '|'), `t1`.`query_id`),
                                        '|'
                                      ),
                                      CAST(`t1`.`doc_id` AS STRING)
                                    ),
                                    '|'
                                  ),
                                  CAST(CAST(`t1`.`rank` AS INT64) AS STRING)
                                )
                              )
                            )
                          )
                        )
                      ),
                      1
                    )
                  ) AS FLOAT64) > 90,
                  87.0,
                  48.0
                )
              )
            ) < (
              ieee_divide(`t1`.`feedback_revenue`, 200.0) * 4294967296.0
            )
          END AS `clicked`,
          `t1`.`feedback_revenue` AS `worth`,
          `t1`.`session_id`,
          CASE
            WHEN `t1`.`query_id` IS NULL
            THEN -1
            WHEN `t1`.`doc_id` IS NULL
            THEN -2
            WHEN (
              `t1`.`rank` IS NULL
            ) OR (
              `t1`.`rank` < 1
            )
            THEN -3
            WHEN `t1`.`session_id` IS NULL
            THEN -4
            WHEN (
              `t1`.`feedback_revenue` IS NULL
            )
            OR NOT (
              (
                `t1`.`feedback_revenue` >= 0
              )
              AND (
                (
                  `t1`.`feedback_revenue` - `t1`.`feedback_revenue`
                ) = 0
              )
            )
            THEN -5
            ELSE `t1`.`rank`
          END AS `place`
        FROM (
          SELECT
            `t0`.`query_id`,
            `t0`.`doc_id`,
            `t0`.`rank`,
            `t0`.`session_id`,
            `t0`.`revenue` AS `feedback_revenue`,
            CAST(`t0`.`session_id` AS STRING) AS `drawn_by`
          FROM `log` AS `t0`
        ) AS `t1`
      ) AS `t2`
      GROUP BY
        1,
        2,
        3
    ) AS `t3`
  ) AS `t4`
  GROUP BY
    1,
    2,
    3
) AS `t5`
