/* ip: which addresses are of which network. Protects S8: what a name must not lead to. */
#include "base/ip.h"
#include "base/mem.h"
#include "check.h"

struct case_row {
    const char *text;
    enum ip_class is;
};
static const struct case_row rows[] = {
    {"8.8.8.8", IP_PUBLIC},
    {"172.15.255.255", IP_PUBLIC},
    {"172.32.0.0", IP_PUBLIC},
    {"100.63.255.255", IP_PUBLIC},
    {"100.128.0.0", IP_PUBLIC},
    {"169.253.0.1", IP_PUBLIC},
    {"223.255.255.255", IP_PUBLIC},
    {"2600:1f18::1", IP_PUBLIC},
    {"10.0.0.1", IP_PRIVATE},
    {"172.16.0.0", IP_PRIVATE},
    {"172.31.255.255", IP_PRIVATE},
    {"192.168.255.1", IP_PRIVATE},
    {"100.64.0.0", IP_PRIVATE},
    {"100.127.255.255", IP_PRIVATE},
    {"fc00::1", IP_PRIVATE},
    {"fdff::", IP_PRIVATE},
    {"fec0::1", IP_PRIVATE},
    {"127.0.0.1", IP_LOOPBACK},
    {"127.255.255.255", IP_LOOPBACK},
    {"::1", IP_LOOPBACK},
    {"169.254.169.254", IP_LINK_LOCAL},
    {"169.254.170.2", IP_LINK_LOCAL},
    {"100.100.100.200", IP_LINK_LOCAL},
    {"fe80::1", IP_LINK_LOCAL},
    {"febf::1", IP_LINK_LOCAL},
    {"fd00:ec2::254", IP_LINK_LOCAL},
    {"0.0.0.0", IP_SPECIAL},
    {"0.1.2.3", IP_SPECIAL},
    {"224.0.0.1", IP_SPECIAL},
    {"255.255.255.255", IP_SPECIAL},
    {"240.0.0.1", IP_SPECIAL},
    {"::", IP_SPECIAL},
    {"::127.0.0.1", IP_SPECIAL},
    {"ff02::1", IP_SPECIAL},
    /* Other clothes. */
    {"::ffff:127.0.0.1", IP_LOOPBACK},
    {"::ffff:169.254.169.254", IP_LINK_LOCAL},
    {"::ffff:8.8.8.8", IP_PUBLIC},
    {"64:ff9b::10.0.0.1", IP_PRIVATE},
    {"2002:7f00:1::", IP_LOOPBACK},
    {"2002:808:808::", IP_PUBLIC},
};

static void
test_classes(void)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        unsigned char bytes[16];
        size_t len = ip_parse(span_of(rows[i].text), bytes);

        CHECK(len == 4 || len == 16);
        if (ip_class_of(bytes, len) != rows[i].is)
            fprintf(stderr, "%s\n", rows[i].text);
        CHECK(ip_class_of(bytes, len) == rows[i].is);
        CHECK(ip_class_name(rows[i].is)[0] != '\0');
    }
    CHECK(ip_class_of((const unsigned char *)"12345", 5) == IP_SPECIAL);
}

static void
test_what_is_no_address(void)
{
    static const char *const texts[] = {"",          "1.2.3", "127.1",   "0x7f.0.0.1",
                                        "1.2.3.4.5", "[]",    "[1.2.3]", "2130706433",
                                        "localhost", "::g",   "[::1",    "1.2.3.4 "};
    unsigned char bytes[16];

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        CHECK_U64(ip_parse(span_of(texts[i]), bytes), 0);
    CHECK_U64(ip_parse((struct span){"1.2.3.4\0x", 9}, bytes), 0);
    CHECK_U64(ip_parse(SPAN("[::1]"), bytes), 16);
}

static void
test_prefixes(void)
{
    const unsigned char a[4] = {10, 1, 0x80, 0}, b[4] = {10, 1, 0xff, 1};

    CHECK(ip_same_prefix(a, b, 0) && ip_same_prefix(a, b, 17));
    CHECK(!ip_same_prefix(a, b, 18) && !ip_same_prefix(a, b, 32));
    CHECK(ip_same_prefix(a, a, 32));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_classes);
    RUN(test_what_is_no_address);
    RUN(test_prefixes);
    return check_done();
}
