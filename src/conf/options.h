/* options: every option of the server, one row each. Names, types, defaults, limits,
 * help, the page docs/options.md and `forebay config` all come from here.
 *
 * X(id, name, type, default, least, most, choices, when, help)
 *   least, most   of U64 and SIZE as they are, of DURATION in ms, of TEXT in bytes, of
 *                 LIST in items
 *   choices       of ENUM: "a|b|c"; its value is the index. Of SIZE: "auto" where it may say that
 *                 instead of a size; its value is CONF_AUTO
 *   when          LIVE: a reload applies it; START: needs a restart
 *
 * No name is also the table of another, which TOML cannot express; a test checks this.
 */
#pragma once
#include "base/mem.h"

#define CONF_SECOND 1000ull
#define CONF_MINUTE (60 * CONF_SECOND)
#define CONF_HOUR   (60 * CONF_MINUTE)
#define CONF_DAY    (24 * CONF_HOUR)

/* clang-format off */
#define CONF_TABLE(X) \
    X(OPT_LISTEN, "listen", TEXT, "127.0.0.1:9000", 1, 255, "", START, \
      "address and port of the S3 endpoint; port 0 takes a free one") \
    X(OPT_INSECURE_HTTP, "insecure_http", BOOL, "false", 0, 0, "", START, \
      "serve without TLS on an address that is not loopback: keys stay secret, bodies can be read on the wire") \
    X(OPT_CORE_DUMPS, "unsafe.core_dumps", BOOL, "false", 0, 0, "", START, \
      "let the kernel write core dumps, with keys and bodies in them, and debuggers attach") \
    X(OPT_AUTH, "auth", BOOL, "false", 0, 0, "", START, \
      "require credentials on loopback too; every other address always does") \
    X(OPT_ADVERTISE, "node.advertise", TEXT, "", 0, 255, "", START, \
      "HOST:PORT by which AIS clients and other nodes reach this server, for containers and address translation; unless set the Host of each request, and for nodes the listen address") \
    X(OPT_NODE_NAME, "node.name", TEXT, "", 0, 64, "", START, \
      "the name of this node in its cluster, for life, since placement of keys depends on it; unless set what its folder says, and at the first start HOSTNAME-PORT") \
    X(OPT_NODE_DOMAIN, "node.domain", TEXT, "", 0, 255, "", START, \
      "the failure domain of this node, for example rack=r1: replicas lie in different ones; unless set each node is one of its own") \
    X(OPT_NODE_WEIGHT, "node.weight", U64, "1000", 1, 1000000, "", START, \
      "the share of keys of this node, relative to the weights of the others") \
    X(OPT_CLUSTER_ETCD, "cluster.etcd", LIST, "", 0, 16, "", START, \
      "addresses of the members of the etcd that holds the shared state of the cluster, http://HOST:PORT or https://HOST:PORT; unless set this node is alone") \
    X(OPT_CLUSTER_NAME, "cluster.name", TEXT, "", 0, 64, "", START, \
      "the name of the cluster that this node belongs to") \
    X(OPT_CLUSTER_KEY_FILE, "cluster.key_file", TEXT, "", 0, 4095, "", START, \
      "a file of mode 0600 with the key of the cluster, the same on all nodes; forebay cluster key makes one") \
    X(OPT_CLUSTER_PEER_LISTEN, "cluster.peer_listen", TEXT, "", 0, 255, "", START, \
      "address and port for requests of other nodes; unless set the address of listen and its port + 1") \
    X(OPT_CLUSTER_ETCD_USER, "cluster.etcd_user", TEXT, "", 0, 255, "", START, \
      "the user by which nodes log in to etcd; unless set without a log-in") \
    X(OPT_CLUSTER_ETCD_PASSWORD_FILE, "cluster.etcd_password_file", TEXT, "", 0, 4095, "", START, \
      "a file of mode 0600 with the password of that user") \
    X(OPT_CLUSTER_ETCD_CA_FILE, "cluster.etcd_ca_file", TEXT, "", 0, 4095, "", START, \
      "PEM file of the authorities that vouch for https:// addresses of etcd; unless set the system's") \
    X(OPT_AIS_TOKEN_KEY_FILE, "ais.token_key_file", TEXT, "", 0, 4095, "", START, \
      "a file of mode 0600 with the shared secret that signs bearer tokens (JWT, HS256) of AIS clients; unless set no token is taken") \
    X(OPT_AIS_PROMOTE_DIR, "ais.promote_dir", TEXT, "/var/lib/ais/promote", 0, 4095, "", START, \
      "files below this folder may become objects by promote of AIS clients with that right; empty: none") \
    X(OPT_AIS_DOWNLOAD_PRIVATE, "ais.download_private", BOOL, "false", 0, 0, "", START, \
      "downloads (/v1/download) may come from private and loopback addresses too, not from public ones alone") \
    X(OPT_CREDENTIALS, "credentials", TEXT, "", 0, 4095, "", LIVE, \
      "a file of more users in the form of AWS's shared credentials file, one profile each") \
    X(OPT_TLS_CERT, "tls.cert", TEXT, "", 0, 4095, "", LIVE, \
      "PEM file of the server's certificate and its chain; with tls.key the endpoint speaks HTTPS only. Read again when it changes") \
    X(OPT_TLS_KEY, "tls.key", TEXT, "", 0, 4095, "", LIVE, \
      "PEM file of the certificate's private key") \
    X(OPT_ENGINE, "engine", ENUM, "auto", 0, 0, "auto|uring|epoll", START, \
      "interface to the kernel for I/O; auto uses io_uring where it is allowed") \
    X(OPT_LOOPS, "loops", U64, "0", 0, 256, "", START, \
      "event loops; 0 is one for each CPU this process may use") \
    X(OPT_WORKERS, "workers", U64, "0", 0, 256, "", START, \
      "threads for what has no asynchronous form; 0 is 8, or more for many loops or disks") \
    X(OPT_FIBERS, "fibers", U64, "0", 0, 1048576, "", START, \
      "most fibers a loop runs at once; 0 is as many as the kernel lets stacks exist") \
    X(OPT_MEMORY_LIMIT, "memory.limit", SIZE, "0", 0, GIB(1048576), "", START, \
      "memory of the whole process: memory.buffers, memory.block_cache, memory.memtable and the memory of clients are cut to fit; beyond it 503; 0 is nine tenths of the control group's or the machine's memory; at least 96 MiB") \
    X(OPT_MEMORY_BUFFERS, "memory.buffers", SIZE, "auto", MIB(16), GIB(1024), "auto", START, \
      "limit of the pooled I/O buffers of all loops; auto: 256 MiB, or 32 MiB for each loop if that is more; at the limit each scan of a log takes 8 MiB more, and each of the two write-ahead logs of a disk one commit batch; memory.limit counts them") \
    X(OPT_MEMORY_BLOCK_CACHE, "memory.block_cache", SIZE, "auto", 0, GIB(65536), "auto", START, \
      "limit of the block cache: verified bytes of objects in memory; auto: up to half of the memory of the control group or the machine, as far as nothing else needs it; 0 turns it off") \
    X(OPT_CACHE_BUDGET, "cache.budget", SIZE, "0", 0, GIB(1048576), "", START, \
      "most bytes of cached buckets on disk; the objects read least often are evicted first; 0: only the disks limit them") \
    X(OPT_CACHE_HIGH, "cache.high", U64, "97", 10, 100, "", START, \
      "percent of cache.budget at which eviction starts") \
    X(OPT_CACHE_LOW, "cache.low", U64, "95", 5, 100, "", START, \
      "percent of cache.budget at which eviction stops") \
    X(OPT_CACHE_LARGE, "cache.large", SIZE, "64MiB", KIB(64), GIB(1048576), "", START, \
      "objects of attached buckets above this size are cached in chunks, which are fetched in parallel and evicted one by one") \
    X(OPT_CACHE_CHUNK, "cache.chunk", SIZE, "16MiB", KIB(64), GIB(1), "", START, \
      "size of such a chunk; objects that are cached already keep theirs") \
    X(OPT_CACHE_READAHEAD, "cache.readahead", U64, "4", 0, 64, "", START, \
      "how many numbered objects of attached buckets are fetched ahead of a client that reads them in order; 0 turns it off") \
    X(OPT_LOG_LEVEL, "log.level", ENUM, "info", 0, 0, "debug|info|warn|error", LIVE, \
      "lines of this level and above are written") \
    X(OPT_LOG_FORMAT, "log.format", ENUM, "logfmt", 0, 0, "logfmt|json", LIVE, \
      "form of the log on stderr") \
    X(OPT_LOG_ACCESS, "log.access", BOOL, "false", 0, 0, "", LIVE, \
      "one line for each request that was answered") \
    X(OPT_LOG_AUDIT, "log.audit", TEXT, "", 0, 4095, "", START, \
      "a file that gets one line of JSON for each denied request, delete and administrative change; empty: the lines go to the log") \
    X(OPT_HTTP_HEADER_TIMEOUT, "http.header_timeout", DURATION, "10s", 100, CONF_HOUR, "", START, \
      "from the first byte of a request's head to its last") \
    X(OPT_HTTP_IDLE_TIMEOUT, "http.idle_timeout", DURATION, "75s", 100, CONF_DAY, "", START, \
      "how long a connection without a request is kept") \
    X(OPT_HTTP_BODY_IDLE, "http.body_idle", DURATION, "5m", 100, CONF_DAY, "", START, \
      "how long an authenticated upload may send nothing") \
    X(OPT_HTTP_BODY_GRACE, "http.body_grace", DURATION, "10s", 100, CONF_HOUR, "", START, \
      "how long a body may be slower than http.min_rate") \
    X(OPT_HTTP_MIN_RATE, "http.min_rate", SIZE, "1KiB", 0, GIB(1), "", START, \
      "bytes a second that a client must send at least") \
    X(OPT_HTTP_SEND_STALL, "http.send_stall", DURATION, "30m", 1000, 7 * CONF_DAY, "", START, \
      "how long a client may read nothing of its response, for example a training loop that pauses within a shard") \
    X(OPT_HTTP_BUFFER, "http.buffer", SIZE, "16KiB", KIB(4), MIB(1), "", START, \
      "buffer of a connection while a request is in flight") \
    X(OPT_HTTP_REQUEST_MEMORY, "http.request_memory", SIZE, "4MiB", KIB(256), GIB(1), "", START, \
      "most memory one request takes besides its body") \
    X(OPT_HTTP_CONNECTIONS, "http.connections", U64, "65536", 1, 16777216, "", START, \
      "most connections at once; beyond it 503") \
    X(OPT_HTTP_PEER_CONNECTIONS, "http.connections_per_address", U64, "0", 0, 16777216, "", START, \
      "most connections of one client address, or /64 of IPv6; beyond it 503; loopback has no such limit; 0 is a quarter of http.connections") \
    X(OPT_HTTP_HEADS, "http.heads", U64, "0", 0, 1048576, "", START, \
      "most connections whose request head is not complete; beyond it the oldest is closed; 0 is one for each MiB of memory.limit, 64 to 4096") \
    X(OPT_HTTP_REQUESTS, "http.requests", U64, "0", 0, 1048576, "", START, \
      "most requests in flight; 0 is 4096, or 64 for each loop if that is more; more wait in a queue, see http.waiting and http.wait") \
    X(OPT_HTTP_WAITING, "http.waiting", U64, "0", 0, 1048576, "", START, \
      "most requests in that queue; 0 is as http.requests; beyond it 503 with Retry-After at once") \
    X(OPT_HTTP_WAIT, "http.wait", DURATION, "100ms", 1, CONF_MINUTE, "", START, \
      "how long a request waits in the queue, its head read and its body not, before 503 with Retry-After") \
    X(OPT_HTTP_RETRY_AFTER, "http.retry_after", DURATION, "1s", 1000, CONF_HOUR, "", START, \
      "value of the Retry-After header") \
    X(OPT_DRAIN_TIMEOUT, "drain.timeout", DURATION, "8s", 0, CONF_HOUR, "", START, \
      "after SIGTERM: how long requests in flight may take to end") \
    X(OPT_S3_REGION, "s3.region", TEXT, "us-east-1", 1, 64, "", START, \
      "the region this endpoint says it is; signatures of any region are taken") \
    X(OPT_S3_DOMAINS, "s3.domains", LIST, "localhost", 0, 16, "", START, \
      "domains under which BUCKET.DOMAIN in Host names a bucket") \
    X(OPT_S3_CLOCK_SKEW, "s3.clock_skew", DURATION, "15m", CONF_SECOND, CONF_DAY, "", START, \
      "how far a client's clock may be off before its signature is refused") \
    X(OPT_DISK_SEGMENT_BYTES, "disk.segment_bytes", SIZE, "1GiB", MIB(16), GIB(64), "", START, \
      "size of a segment file; bodies of 16 MiB and more have one of their own") \
    X(OPT_DISK_REBALANCE_RATE, "disk.rebalance_rate", SIZE, "128MiB", KIB(64), GIB(64), "", START, \
      "most bytes a second that rebalancing and repairs copy between the disks of the node") \
    X(OPT_MEMORY_MEMTABLE, "memory.memtable", SIZE, "64MiB", MIB(1), GIB(64), "", START, \
      "limit of the memtable of a disk: entries of the write-ahead log that the index does not hold yet; they are replayed at start") \
    X(OPT_RESHARD_MEMORY, "reshard.memory", SIZE, "64MiB", KIB(1), GIB(2), "", START, \
      "records of samples that one reshard sorts in memory before it writes them to the disk of the node's state") \
    X(OPT_RESHARD_SPILL, "reshard.spill", SIZE, "64GiB", MIB(1), GIB(1048576), "", START, \
      "most bytes of members of compressed shards that one reshard keeps on the disk of the node's state") \
    X(OPT_SHARD_INDEXES, "shard.indexes", SIZE, "1GiB", 0, GIB(1024), "", START, \
      "most bytes of indexes of tar and zip shards kept in the node's state, the least recently used leave first; 0: none is kept over a restart") \
    X(OPT_INDEX_MAP_SIZE, "index.map_size", SIZE, "64GiB", MIB(64), GIB(65536), "", START, \
      "address space of the index, and its largest size; about 250 bytes an object") \
    X(OPT_INDEX_INTERVAL, "index.interval", DURATION, "1s", 10, CONF_MINUTE, "", START, \
      "time between durable commits of the index; the write-ahead log is durable before that") \
    X(OPT_DISK_ERRORS, "disk.errors", U64, "100", 0, 1000000, "", START, \
      "a disk is taken out of service when operations fail at so many of its places within disk.error_window; 0 turns this off") \
    X(OPT_DISK_ERROR_WINDOW, "disk.error_window", DURATION, "10m", 1000, CONF_DAY, "", START, \
      "the window in which errors of a disk are counted against disk.errors") \
    X(OPT_DISK_SLOW, "disk.slow", DURATION, "0ms", 0, CONF_MINUTE, "", START, \
      "a disk whose operations take longer on average counts as slow; 0 is ten times what is usual for it") \
    X(OPT_DISK_SLOW_LEAVE, "disk.slow_leave", DURATION, "0ms", 0, 7 * CONF_DAY, "", START, \
      "a disk that is slow for so long is taken out of service; 0 is never") \
    X(OPT_DISK_STALL, "disk.stall", DURATION, "2m", 1000, CONF_HOUR, "", START, \
      "a disk is taken out of service when none of its operations in flight completes for so long") \
    X(OPT_SCRUB_RATE, "scrub.rate", SIZE, "64MiB", KIB(64), GIB(64), "", START, \
      "most bytes a second that the scrub of one disk reads") \
    X(OPT_SCRUB_PASS, "scrub.pass", DURATION, "7d", CONF_SECOND, 365 * CONF_DAY, "", START, \
      "time for one pass of the scrub over a disk") \
    X(OPT_TURN_LIMIT, "turn_limit", DURATION, "50ms", 1, CONF_MINUTE, "", START, \
      "an iteration of an event loop that takes longer is logged, with the function that ran") \
    X(OPT_BACKEND_TIMEOUT, "backend.timeout", DURATION, "30s", 100, CONF_HOUR, "", START, \
      "waiting for a remote store: to its first byte, and between bytes") \
    X(OPT_BACKEND_CONNECT_TIMEOUT, "backend.connect_timeout", DURATION, "5s", 100, 10 * CONF_MINUTE, "", START, \
      "connecting to a remote store: name, TCP and TLS together") \
    X(OPT_BACKEND_RETRIES, "backend.retries", U64, "5", 0, 100, "", START, \
      "how often one call to a remote store is repeated at most") \
    X(OPT_BACKEND_RETRY_TIME, "backend.retry_time", DURATION, "20s", 0, CONF_HOUR, "", START, \
      "longest time spent on repeating one call") \
    X(OPT_BACKEND_CONNECTIONS, "backend.connections", U64, "0", 0, 65536, "", START, \
      "most connections to one remote store, each loop; 0 is 64, fewer on machines with more than 16 loops") \
    X(OPT_BACKEND_RATE, "backend.rate", SIZE, "0", 0, GIB(64), "", START, \
      "bytes a second of objects from one remote store (endpoint) at most, readers before prefetches; 0 is no limit") \
    X(OPT_SECRETS_KEY_FILE, "secrets.key_file", TEXT, "", 0, 4095, "", START, \
      "a file of mode 0600 with the key that seals stored keys of remotes, 64 hex digits a line, the first one seals; unless set one is made in the node's state") \
    X(OPT_BACKEND_CA_FILE, "backend.ca_file", TEXT, "", 0, 4095, "", START, \
      "PEM file of the authorities that vouch for https:// endpoints; unless set the system's") \
    X(OPT_BACKEND_HTTP_PROXY, "backend.http_proxy", TEXT, "", 0, 1024, "", START, \
      "the proxy http://HOST:PORT to http:// endpoints; none: no proxy; unless set HTTP_PROXY of the environment") \
    X(OPT_BACKEND_HTTPS_PROXY, "backend.https_proxy", TEXT, "", 0, 1024, "", START, \
      "the proxy http://HOST:PORT to https:// endpoints, which it sees as tunnels; none: no proxy; unless set HTTPS_PROXY") \
    X(OPT_BACKEND_NO_PROXY, "backend.no_proxy", TEXT, "", 0, 32768, "", START, \
      "names, addresses and networks that are reached without a proxy, between commas; none: no such; unless set NO_PROXY") \
    X(OPT_BACKEND_PROXY_CREDENTIALS, "backend.proxy_credentials", TEXT, "", 0, 4095, "", START, \
      "a file of mode 0600 with USER:PASSWORD for the proxies") \
    X(OPT_BENCH_OBJECTS, "bench.objects", BOOL, "false", 0, 0, "", START, \
      "answer /_/bench/SIZE with that many generated bytes, for benchmarks")
/* clang-format on */

/* Options that had another name: a configuration that still uses it gets an error with the new one.
 * X(old name, id) */
#define CONF_RENAMED(X)                                                                  \
    X("memory.hot", OPT_MEMORY_BLOCK_CACHE)                                              \
    X("index.memory", OPT_MEMORY_MEMTABLE)                                               \
    X("disk.move_rate", OPT_DISK_REBALANCE_RATE)                                         \
    X("advertise", OPT_ADVERTISE)

enum conf_option {
#define X(id, ...) id,
    CONF_TABLE(X)
#undef X
        OPT_COUNT_
};
