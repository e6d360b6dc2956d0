SELECT
  "t5"."query_id",
  "t5"."doc_id",
  CAST("t5"."place" AS BIGINT) AS "place",
  "t5"."rows",
  "t5"."impressions",
  "t5"."clicks"
FROM (
  SELECT
    "t4"."query_id",
    "t4"."doc_id",
    "t4"."place",
    CAST(CAST(SUM("t4"."rows") AS DECIMAL(38, 0)) AS BIGINT) AS "rows",
    COUNT(*) AS "impressions",
    COUNT(*) FILTER(WHERE
      "t4"."clicked") AS "clicks"
  FROM (
    SELECT
      "t3"."query_id",
      "t3"."doc_id",
      "t3"."rows",
      "t3"."clicked",
      CASE
        WHEN (
          "t3"."place" > 0
        ) AND (
          "t3"."doc_id" <> "t3"."other"
        )
        THEN -6
        ELSE "t3"."place"
      END AS "place"
    FROM (
      SELECT
        "t2"."session_id",
        "t2"."query_id",
        "t2"."place",
        COUNT(*) AS "rows",
        MIN("t2"."doc_id") AS "doc_id",
        MAX("t2"."doc_id") AS "other",
        COUNT(*) FILTER(WHERE
          "t2"."clicked") > 0 AS "clicked"
      FROM (
        SELECT
          "t1"."query_id",
          "t1"."doc_id",
          CASE
            WHEN "t1"."feedback_revenue" <= 0
            THEN FALSE
            WHEN (
              "t1"."feedback_revenue" / 200.0
            ) >= 1
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
                                              MD5(
                                                '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                              ),
                                              CASE
                                                WHEN (
                                                  0 + 1
                                                ) >= 1
                                                THEN 0 + 1
                                                ELSE 0 + 1 + LENGTH(
                                                  MD5(
                                                    '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                                  )
                                                )
                                              END,
                                              1
                                            )
                                          ) AS DOUBLE) - CASE
                                            WHEN CAST(ASCII(
                                              SUBSTRING(
                                                MD5(
                                                  '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                                ),
                                                CASE
                                                  WHEN (
                                                    0 + 1
                                                  ) >= 1
                                                  THEN 0 + 1
                                                  ELSE 0 + 1 + LENGTH(
                                                    MD5(
                                                      '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                                    )
                                                  )
                                                END,
                                                1
                                              )
                                            ) AS DOUBLE) > 90
                                            THEN 87.0
                                            ELSE 48.0
                                          END
                                        ) * 16.0
                                      ) + (
                                        CAST(ASCII(
                                          SUBSTRING(
                                            MD5(
                                              '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                            ),
                                            CASE
                                              WHEN (
                                                1 + 1
                                              ) >= 1
                                              THEN 1 + 1
                                              ELSE 1 + 1 + LENGTH(
                                                MD5(
                                                  '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                                )
                                              )
                                            END,
                                            1
                                          )
                                        ) AS DOUBLE) - CASE
                                          WHEN CAST(ASCII(
                                            SUBSTRING(
                                              MD5(
                                                '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                              ),
                                              CASE
                                                WHEN (
                                                  1 + 1
                                                ) >= 1
                                                THEN 1 + 1
                                                ELSE 1 + 1 + LENGTH(
                                                  MD5(
                                                    '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                                  )
                                                )
                                              END,
                                              1
                                            )
                                          ) AS DOUBLE) > 90
                                          THEN 87.0
                                          ELSE 48.0
                                        END
                                      )
                                    ) * 16.0
                                  ) + (
                                    CAST(ASCII(
                                      SUBSTRING(
                                        MD5(
                                          '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                        ),
                                        CASE
                                          WHEN (
                                            2 + 1
                                          ) >= 1
                                          THEN 2 + 1
                                          ELSE 2 + 1 + LENGTH(
                                            MD5(
                                              '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                            )
                                          )
                                        END,
                                        1
                                      )
                                    ) AS DOUBLE) - CASE
                                      WHEN CAST(ASCII(
                                        SUBSTRING(
                                          MD5(
                                            '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                          ),
                                          CASE
                                            WHEN (
                                              2 + 1
                                            ) >= 1
                                            THEN 2 + 1
                                            ELSE 2 + 1 + LENGTH(
                                              MD5(
                                                '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                              )
                                            )
                                          END,
                                          1
                                        )
                                      ) AS DOUBLE) > 90
                                      THEN 87.0
                                      ELSE 48.0
                                    END
                                  )
                                ) * 16.0
                              ) + (
                                CAST(ASCII(
                                  SUBSTRING(
                                    MD5(
                                      '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                    ),
                                    CASE
                                      WHEN (
                                        3 + 1
                                      ) >= 1
                                      THEN 3 + 1
                                      ELSE 3 + 1 + LENGTH(
                                        MD5(
                                          '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                        )
                                      )
                                    END,
                                    1
                                  )
                                ) AS DOUBLE) - CASE
                                  WHEN CAST(ASCII(
                                    SUBSTRING(
                                      MD5(
                                        '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                      ),
                                      CASE
                                        WHEN (
                                          3 + 1
                                        ) >= 1
                                        THEN 3 + 1
                                        ELSE 3 + 1 + LENGTH(
                                          MD5(
                                            '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                          )
                                        )
                                      END,
                                      1
                                    )
                                  ) AS DOUBLE) > 90
                                  THEN 87.0
                                  ELSE 48.0
                                END
                              )
                            ) * 16.0
                          ) + (
                            CAST(ASCII(
                              SUBSTRING(
                                MD5(
                                  '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                ),
                                CASE
                                  WHEN (
                                    4 + 1
                                  ) >= 1
                                  THEN 4 + 1
                                  ELSE 4 + 1 + LENGTH(
                                    MD5(
                                      '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                    )
                                  )
                                END,
                                1
                              )
                            ) AS DOUBLE) - CASE
                              WHEN CAST(ASCII(
                                SUBSTRING(
                                  MD5(
                                    '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                  ),
                                  CASE
                                    WHEN (
                                      4 + 1
                                    ) >= 1
                                    THEN 4 + 1
                                    ELSE 4 + 1 + LENGTH(
                                      MD5(
                                        '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                      )
                                    )
                                  END,
                                  1
                                )
                              ) AS DOUBLE) > 90
                              THEN 87.0
                              ELSE 48.0
                            END
                          )
                        ) * 16.0
                      ) + (
                        CAST(ASCII(
                          SUBSTRING(
                            MD5(
                              '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                            ),
                            CASE
                              WHEN (
                                5 + 1
                              ) >= 1
                              THEN 5 + 1
                              ELSE 5 + 1 + LENGTH(
                                MD5(
                                  '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                )
                              )
                            END,
                            1
                          )
                        ) AS DOUBLE) - CASE
                          WHEN CAST(ASCII(
                            SUBSTRING(
                              MD5(
                                '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                              ),
                              CASE
                                WHEN (
                                  5 + 1
                                ) >= 1
                                THEN 5 + 1
                                ELSE 5 + 1 + LENGTH(
                                  MD5(
                                    '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                                  )
                                )
                              END,
                              1
                            )
                          ) AS DOUBLE) > 90
                          THEN 87.0
                          ELSE 48.0
                        END
                      )
                    ) * 16.0
                  ) + (
                    CAST(ASCII(
                      SUBSTRING(
                        MD5(
                          '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                        ),
                        CASE
                          WHEN (
                            6 + 1
                          ) >= 1
                          THEN 6 + 1
                          ELSE 6 + 1 + LENGTH(
                            MD5(
                              '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                            )
                          )
                        END,
                        1
                      )
                    ) AS DOUBLE) - CASE
                      WHEN CAST(ASCII(
                        SUBSTRING(
                          MD5(
                            '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                          ),
                          CASE
                            WHEN (
                              6 + 1
                            ) >= 1
                            THEN 6 + 1
                            ELSE 6 + 1 + LENGTH(
                              MD5(
                                '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                              )
                            )
                          END,
                          1
                        )
                      ) AS DOUBLE) > 90
                      THEN 87.0
                      ELSE 48.0
                    END
                  )
                ) * 16.0
              ) + (
                CAST(ASCII(
                  SUBSTRING(
                    MD5(
                      '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                    ),
                    CASE
                      WHEN (
                        7 + 1
                      ) >= 1
                      THEN 7 + 1
                      ELSE 7 + 1 + LENGTH(
                        MD5(
                          '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                        )
                      )
                    END,
                    1
                  )
                ) AS DOUBLE) - CASE
                  WHEN CAST(ASCII(
                    SUBSTRING(
                      MD5(
                        '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                      ),
                      CASE
                        WHEN (
                          7 + 1
                        ) >= 1
                        THEN 7 + 1
                        ELSE 7 + 1 + LENGTH(
                          MD5(
                            '0:' || 'value' || '|' || "t1"."drawn_by" || '|' || "t1"."query_id" || '|' || CAST("t1"."doc_id" AS TEXT) || '|' || CAST(CAST("t1"."rank" AS BIGINT) AS TEXT)
                          )
                        )
                      END,
                      1
                    )
                  ) AS DOUBLE) > 90
                  THEN 87.0
                  ELSE 48.0
                END
              )
            ) < (
              (
                "t1"."feedback_revenue" / 200.0
              ) * 4294967296.0
            )
          END AS "clicked",
          "t1"."feedback_revenue" AS "worth",
          "t1"."session_id",
          CASE
            WHEN "t1"."query_id" IS NULL
            THEN -1
            WHEN "t1"."doc_id" IS NULL
            THEN -2
            WHEN (
              "t1"."rank" IS NULL
            ) OR (
              "t1"."rank" < 1
            )
            THEN -3
            WHEN "t1"."session_id" IS NULL
            THEN -4
            WHEN (
              "t1"."feedback_revenue" IS NULL
            )
            OR NOT (
              (
                "t1"."feedback_revenue" >= 0
              )
              AND (
                (
                  "t1"."feedback_revenue" - "t1"."feedback_revenue"
                ) = 0
              )
            )
            THEN -5
            ELSE "t1"."rank"
          END AS "place"
        FROM (
          SELECT
            "t0"."query_id",
            "t0"."doc_id",
            "t0"."rank",
            "t0"."session_id",
            "t0"."revenue" AS "feedback_revenue",
            CAST("t0"."session_id" AS TEXT) AS "drawn_by"
          FROM "log" AS "t0"
        ) AS "t1"
      ) AS "t2"
      GROUP BY
        1,
        2,
        3
    ) AS "t3"
  ) AS "t4"
  GROUP BY
    1,
    2,
    3
) AS "t5"
