/* tar_format: offsets of a ustar header. Only for tar_*.c. */
#pragma once

enum ustar_offset {
    USTAR_NAME = 0,
    USTAR_MODE = 100,
    USTAR_UID = 108,
    USTAR_GID = 116,
    USTAR_SIZE = 124,
    USTAR_MTIME = 136,
    USTAR_SUM = 148,
    USTAR_TYPE = 156,
    USTAR_LINK = 157,
    USTAR_MAGIC = 257, /* "ustar\0" "00"; GNU's old one is "ustar  \0" */
    USTAR_PREFIX = 345,
};
#define USTAR_NAME_LEN   100u
#define USTAR_PREFIX_LEN 155u
