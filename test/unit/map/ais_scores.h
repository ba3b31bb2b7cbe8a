/* Rows of test_scores_of_ais(): made by a program of its own from the formula of AIS clients. */
{"t[node1]", "ais/@#/bucket/obj", 0xe87399f8b9d44407u, 0x1c80f053b03c2a8au,
 0xa61df2c022dcb073u},
    {"node-0", "ais/@#/bucket/train/00000001.tar", 0x7d4f75a852016627u,
     0x8319ee7d55cebfffu, 0xa883e3fa19019a99u},
    {"QxYzt8081", "aws/@#/data/a/much/longer/name/of/an/object-000000000000042.tar",
     0x3e0ced25aad80b03u, 0x2f6f2b32faf7d38eu, 0x97c1024fc6ea2779u},
    {"n", "", 0x4e37bf2d267f18c8u, 0xaaa3575891557d33u, 0xdd08d26633dc08a7u},
    {"node-7", "x", 0x6adb92d5372246eeu, 0xec7f1cb0412cc7e5u, 0x7695cccec549c0d8u},
