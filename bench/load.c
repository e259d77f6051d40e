/* Both ends of a relay in one process and on one clock.
 *
 * The upstream speaks OpenAI Chat Completions: each token in a chunk and a write of its own.
 * The clients POST to the relay and read what comes. Every token's text holds "~stream.number~",
 * so whatever JSON stands around it each token is checked: in order, once, none missing; and the
 * delay that the relay adds is the time the client read it minus the time the upstream wrote it.
 * What the upstream shall do stands in the request, as "bench:stream:tokens:interval_us:size:act".
 * One thread, epoll, Linux. `load --help` tells the options. It prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 8192,          /* clients that POST, at most */
    RING = 1024,           /* write times kept for each of them */
    TAIL = 512,            /* last bytes of a body, where its end is looked for */
    HEAD = 16384,          /* longest head of a response */
    PIDS = 64,
    TEXT_MAX = 4 << 20,
    PENDING_MAX = 64 << 20 /* unsent bytes of one connection: more is a relay that does not read */
};
static const uint64_t MS = 1000000, SECOND = 1000000000;
static const uint64_t PATIENCE_S = 10; /* the most that a window waits for its first token */

/* ---- options ---- */

static struct {
    const char *mode, *host, *path, *model, *key, *readers_path, *act;
    const char *headers[16];
    int header_count, listen_port, relay_port, readers_port;
    int pids[PIDS], pid_count;
    uint64_t streams, tokens, requests, warmup_requests, readers, preload, max_streams;
    uint64_t size, slice, gap_us, leave;
    double step, precision, rate, seconds, warmup, spread, limit_s, settle, p99_ms;
    bool reconnect;
} o = {
    .host = "127.0.0.1", .path = "/v1/chat/completions", .model = "bench", .key = "sk-bench",
    .readers_path = "/v1/streams/%s/events", .act = "end", .streams = 100, .rate = 20,
    .requests = 500, .warmup_requests = 50, .step = 1.5, .precision = 0.03, .max_streams = 4000, .seconds = 5, .warmup = 1,
    .spread = 1, .limit_s = 300, .settle = 1.5, .p99_ms = 50,
};

static const char HELP[] =
    "load MODE --listen PORT --relay PORT [options]\n"
    "  paced     --streams N --rate R tokens/s each, for --seconds S after --spread and --warmup\n"
    "  flood     the same, the upstream writes as fast as the relay reads\n"
    "  work      --streams at once make --requests in all, of --tokens each, at --rate (0: flood)\n"
    "  requests  one after another, for --seconds or --requests; --preload N streams are opened first\n"
    "  idle      --streams, one token each, then held: memory of a stream\n"
    "  search    the most streams at --rate whose p99 is under --p99-ms: from --streams on, times --step,\n"
    "            then by halves to --precision; a miss of a relay that is not busy is tried again\n"
    "  replay    one stream of --tokens, then read again from the log, --requests times\n"
    "  dead      --streams of --tokens at --rate, then --act die (FIN), reset (RST) or quiet\n"
    "  serve     only the upstream, for --seconds\n"
    "options: --host A --path P --model M --key K --header 'N: V' --pid RELAY (repeat; children count)\n"
    "  --size BYTES of a token's text  --slice BYTES a write, --gap-us apart  --readers N more a stream\n"
    "  --readers-path P with %s  --readers-port PORT of another relay  --reconnect for each request  --warmup-requests N\n"
    "  --leave N: clients hang up after N tokens\n"
    "  --max-streams N  --settle S  --limit S after which it ends in any case\n";

/* ---- small parts ---- */

static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    exit(2);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* Wait without sleeping, which on one's own core is exact. */
static void spin(uint64_t ns) {
    for (uint64_t until = now_ns() + ns; now_ns() < until;) {}
}

static void *grow(void *memory, size_t size) {
    memory = realloc(memory, size);
    if (!memory) die("out of memory");
    return memory;
}

/* A histogram of nanoseconds, 64 steps to each doubling: within 1.6 %. */
enum { STEPS = 64, BUCKETS = 44 * STEPS };
typedef struct {
    uint64_t count[BUCKETS], n, max;
} Times;

static void times_add(Times *times, uint64_t ns) {
    int shift = ns < STEPS ? 0 : 63 - __builtin_clzll(ns) - 6;
    size_t bucket = (size_t)shift * STEPS + (ns >> shift);
    times->count[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    times->n++;
    if (ns > times->max) times->max = ns;
}

static double times_ms(const Times *times, double quantile) {
    uint64_t rank = (uint64_t)(quantile * (double)times->n), seen = 0;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        seen += times->count[bucket];
        if (seen <= rank) continue;
        size_t shift = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;
        double ns = (double)((bucket - shift * STEPS) << shift) + (double)(1ULL << shift) / 2;
        return (ns < (double)times->max ? ns : (double)times->max) / 1e6;
    }
    return (double)times->max / 1e6;
}

/* ---- what is measured ---- */

static struct {
    bool on;
    uint64_t start_ns, end_ns, tokens, written, requests, cut, told;
    uint64_t missing, repeated, foreign, unended, broken, status, unfinished, retried;
    double cpu_s, own_cpu_s, each_s[PIDS];
    Times added, first, late, whole, noticed;
} m;

static uint64_t errors(void) {
    return m.missing + m.repeated + m.foreign + m.unended + m.broken + m.status + m.unfinished +
           m.retried;
}

/* Call `visit` with a process and all its descendants. */
static double of_family(int pid, double (*of)(int pid)) {
    double sum = of(pid);
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    if (!folder) return sum;
    for (struct dirent *task; (task = readdir(folder));) {
        if (!isdigit((unsigned char)task->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", pid, task->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        for (int child; fscanf(file, "%d", &child) == 1;) sum += of_family(child, of);
        fclose(file);
    }
    closedir(folder);
    return sum;
}

/* User and system time, with that of children that have ended, which is known in ticks only. */
static double cpu_of(int pid) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = 0;
    char *rest = strrchr(line, ')');
    long long user = 0, system = 0, child_user = 0, child_system = 0;
    if (rest)
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld", &user,
               &system, &child_user, &child_system);
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    double children = (double)(child_user + child_system) * tick;
    clockid_t clock;
    struct timespec own; /* of a short window a tick is too large a part */
    if (!clock_getcpuclockid(pid, &clock) && !clock_gettime(clock, &own))
        return (double)own.tv_sec + (double)own.tv_nsec / 1e9 + children;
    return (double)(user + system) * tick + children;
}

/* Proportional set size in KiB. */
static double pss_of(int pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "r");
    long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %ld", &kib) == 1) break;
    if (file) fclose(file);
    return (double)kib;
}

static double of_relay(double (*of)(int pid)) {
    double sum = 0;
    for (int i = 0; i < o.pid_count; i++) sum += of_family(o.pids[i], of);
    return sum;
}

static void measure_start(void) {
    memset(&m, 0, sizeof m);
    for (int i = 0; i < o.pid_count; i++) m.each_s[i] = of_family(o.pids[i], cpu_of);
    m.own_cpu_s = (double)clock() / CLOCKS_PER_SEC;
    m.on = true;
    m.start_ns = now_ns();
}

static void measure_end(void) {
    m.on = false;
    m.end_ns = now_ns();
    for (int i = 0; i < o.pid_count; i++) {
        m.each_s[i] = of_family(o.pids[i], cpu_of) - m.each_s[i];
        m.cpu_s += m.each_s[i];
    }
    m.own_cpu_s = (double)clock() / CLOCKS_PER_SEC - m.own_cpu_s;
}

/* ---- connections ---- */

typedef enum { LISTENER, UPSTREAM, CLIENT } Kind;

typedef struct {
    Kind kind;
    int fd;
    uint32_t events, generation;
    char *out;
    size_t out_at, out_length, out_room;
} Connection;

static int epoll_fd;

static void watch(Connection *c, uint32_t events) {
    if (c->events == events) return;
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(epoll_fd, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &event))
        die("epoll_ctl: %s", strerror(errno));
    c->events = events;
}

static void opened(Connection *c, int fd) {
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    c->fd = fd;
    c->events = 0;
    c->out_at = c->out_length = 0;
    watch(c, EPOLLIN);
}

static void closed(Connection *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    c->generation++;
}

static bool pending(const Connection *c) { return c->out_at < c->out_length; }

/* Send what waits; false if the connection is broken. */
static bool flush(Connection *c) {
    while (pending(c)) {
        size_t length = c->out_length - c->out_at;
        if (o.slice && c->kind == UPSTREAM && length > o.slice) length = o.slice;
        ssize_t sent = send(c->fd, c->out + c->out_at, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) return false;
        c->out_at += (size_t)sent;
        if (o.gap_us && c->kind == UPSTREAM) spin(o.gap_us * 1000);
    }
    if (!pending(c)) c->out_at = c->out_length = 0;
    watch(c, pending(c) ? EPOLLIN | EPOLLOUT : EPOLLIN);
    return true;
}

/* Send bytes, or keep them until the other side takes them; false if it is broken. */
static bool put(Connection *c, const char *bytes, size_t length) {
    if (!pending(c) && !o.slice) {
        ssize_t sent = send(c->fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return false;
        if (sent == (ssize_t)length) return true;
        if (sent > 0) bytes += sent, length -= (size_t)sent;
    }
    if (c->out_length + length > c->out_room)
        c->out = grow(c->out, c->out_room = (c->out_length + length) * 2);
    memcpy(c->out + c->out_length, bytes, length);
    c->out_length += length;
    return c->out_length < PENDING_MAX && flush(c);
}

/* ---- timers: a heap ---- */

typedef enum { START_CLIENT, NEXT_TOKEN, MEASURE, STOP, NO_MORE, SETTLED } Timer;

typedef struct {
    uint64_t due;
    Timer timer;
    uint32_t generation;
    Connection *connection;
} Entry;

static Entry *heap;
static size_t heap_length, heap_room;

static void at(uint64_t due, Timer timer, Connection *connection) {
    if (heap_length == heap_room)
        heap = grow(heap, (heap_room = heap_room * 2 + 64) * sizeof *heap);
    size_t i = heap_length++;
    for (; i && heap[(i - 1) / 2].due > due; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = (Entry){due, timer, connection ? connection->generation : 0, connection};
}

static Entry heap_pop(void) {
    Entry top = heap[0], last = heap[--heap_length];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap_length; i = child) {
        if (child + 1 < heap_length && heap[child + 1].due < heap[child].due) child++;
        if (heap[child].due >= last.due) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* ---- one generation, as both ends know it ---- */

typedef struct {
    uint64_t id, posted_ns, asked_ns, first_ns, cut_ns;
    uint64_t written; /* tokens */
    bool served;
    uint64_t when[RING], which[RING];
} Slot;

static Slot slots[SLOTS];
static uint64_t serial;
static bool stopping;

/* ---- the upstream ---- */

typedef enum { END, HOLD, DIE, RESET, QUIET } Act;
static const char *const ACTS[] = {"end", "hold", "die", "reset", "quiet"};

typedef struct Upstream {
    Connection c;
    char *request;
    size_t length, room;
    bool answering, held;
    uint64_t id, number, tokens, interval_ns, due;
    size_t size;
    Act act;
    struct Upstream *next_all, *next_free;
} Upstream;

static Upstream *all_upstreams, *free_upstreams;
static Connection listener = {.kind = LISTENER, .fd = -1};
static char text[TEXT_MAX + 4096];

static const char UPSTREAM_HEAD[] =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    "cache-control: no-cache\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n";
#define CHUNK \
    "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1795000000," \
    "\"model\":\"bench\",\"system_fingerprint\":\"fp_bench\",\"choices\":[{\"index\":0,\"delta\":"

static void upstream_gone(Upstream *u) {
    if (u->c.fd < 0) return;
    closed(&u->c);
    u->answering = false;
    u->next_free = free_upstreams;
    free_upstreams = u;
}

/* Put one piece of the body as an HTTP chunk. */
static bool put_chunk(Upstream *u, const char *head, size_t size_of_head, char *body, size_t length) {
    char size[16];
    int digits = snprintf(size, sizeof size, "%zx\r\n", length);
    char *whole = body - digits - size_of_head; /* callers leave room before the body */
    if (head) memcpy(whole, head, size_of_head);
    memcpy(whole + size_of_head, size, (size_t)digits);
    memcpy(body + length, "\r\n", 2);
    return put(&u->c, whole, size_of_head + (size_t)digits + length + 2);
}

static void upstream_finish(Upstream *u) {
    static const char END_OF_BODY[] = CHUNK "{},\"finish_reason\":\"stop\"}]}\n\n";
    char *body = text + 1024;
    size_t length = sizeof END_OF_BODY - 1;
    memcpy(body, END_OF_BODY, length);
    bool sent = put_chunk(u, NULL, 0, body, length);
    static const char DONE[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
    u->answering = false;
    u->length = 0;
    if (!sent || !put(&u->c, DONE, sizeof DONE - 1)) upstream_gone(u);
}

static Slot *slot_of(uint64_t id) {
    Slot *slot = &slots[id % SLOTS];
    return slot->id == id ? slot : NULL;
}

/* The tokens are out: do what the request asked for. */
static void upstream_act(Upstream *u) {
    Slot *slot = slot_of(u->id);
    if (slot) slot->cut_ns = now_ns();
    switch (u->act) {
    case END: upstream_finish(u); return;
    case HOLD:
    case QUIET: u->held = true; return;
    case RESET:
        setsockopt(u->c.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        upstream_gone(u);
        return;
    case DIE: upstream_gone(u); return;
    }
}

static bool upstream_token(Upstream *u) {
    static const char BEFORE[] = CHUNK "{\"content\":\"";
    static const char AFTER[] = "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
    char *body = text + 1024, *end = body;
    memcpy(end, BEFORE, sizeof BEFORE - 1);
    end += sizeof BEFORE - 1;
    int marked = sprintf(end, " ~%llu.%llu~", (unsigned long long)u->id, (unsigned long long)u->number);
    if (u->size > (size_t)marked) memset(end + marked, 'x', u->size - (size_t)marked);
    end += u->size > (size_t)marked ? u->size : (size_t)marked;
    memcpy(end, AFTER, sizeof AFTER - 1);
    end += sizeof AFTER - 1;
    Slot *slot = slot_of(u->id);
    if (slot) {
        uint64_t now = now_ns();
        slot->when[u->number % RING] = now;
        slot->which[u->number % RING] = u->number;
        slot->written = u->number + 1;
        if (!u->number) slot->first_ns = now;
        if (m.on && u->interval_ns) times_add(&m.late, now > u->due ? now - u->due : 0);
    }
    if (m.on) m.written++;
    u->number++;
    return put_chunk(u, NULL, 0, body, (size_t)(end - body));
}

static bool upstream_done(const Upstream *u) {
    return (u->tokens && u->number >= u->tokens) || (stopping && !u->tokens);
}

/* Write a token; the next when it is due, or in a flood when the other streams had their turn. */
static void upstream_go_on(Upstream *u) {
    if (!u->answering || (u->held && !stopping)) return;
    if (u->held) { upstream_finish(u); return; }
    if (upstream_done(u)) { upstream_act(u); return; }
    if (!upstream_token(u)) { upstream_gone(u); return; }
    if (u->interval_ns) {
        if (upstream_done(u)) { upstream_act(u); return; }
        u->due += u->interval_ns;
        at(u->due, NEXT_TOKEN, &u->c);
    } else {
        watch(&u->c, EPOLLIN | EPOLLOUT);
    }
}

static void upstream_answer(Upstream *u) {
    unsigned long long id = 0, tokens = 0, interval = 0, size = 0;
    char act[8] = "end";
    u->request[u->length] = 0;
    char *marked = strstr(u->request, "bench:");
    if (marked) sscanf(marked, "bench:%llu:%llu:%llu:%llu:%7[a-z]", &id, &tokens, &interval, &size, act);
    else tokens = o.tokens ? o.tokens : 100, interval = o.rate > 0 ? (unsigned long long)(1e6 / o.rate) : 0;
    u->id = id, u->tokens = tokens, u->interval_ns = interval * 1000, u->number = 0;
    u->size = size < TEXT_MAX ? size : TEXT_MAX;
    u->held = false;
    u->answering = true;
    u->act = END;
    for (int i = 0; i < 5; i++)
        if (!strcmp(act, ACTS[i])) u->act = (Act)i;
    u->due = now_ns();
    Slot *slot = slot_of(id);
    if (slot) {
        if (slot->served) m.retried++;
        slot->served = true;
        slot->asked_ns = u->due;
    }
    char *body = text + 1024;
    int length = sprintf(body, "%s", CHUNK "{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n");
    if (!put_chunk(u, UPSTREAM_HEAD, sizeof UPSTREAM_HEAD - 1, body, (size_t)length)) upstream_gone(u);
    else upstream_go_on(u);
}

static void upstream_request(Upstream *u) {
    static const char MODELS[] = "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\"}]}";
    u->request[u->length] = 0;
    char *end = strstr(u->request, "\r\n\r\n");
    if (!end) return;
    size_t head = (size_t)(end - u->request) + 4;
    char *length = strcasestr(u->request, "\r\ncontent-length:");
    char *chunked = strcasestr(u->request, "\r\ntransfer-encoding: chunked");
    if (length && length < end) {
        if (u->length < head + strtoull(length + 17, NULL, 10)) return;
    } else if (chunked && chunked < end) {
        if (memcmp(u->request + u->length - 5, "0\r\n\r\n", 5) != 0) return;
    }
    if (!strncmp(u->request, "POST", 4)) { upstream_answer(u); return; }
    char answer[512];
    int size = snprintf(answer, sizeof answer,
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                        sizeof MODELS - 1, MODELS);
    u->length = 0;
    if (!put(&u->c, answer, (size_t)size)) upstream_gone(u);
}

static void upstream_ready(Upstream *u, uint32_t events) {
    if (u->c.fd < 0) return;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        if (u->length + 65536 > u->room)
            u->request = grow(u->request, u->room = (u->length + 65536) * 2);
        ssize_t got = recv(u->c.fd, u->request + u->length, u->room - u->length - 1, 0);
        if (!got || (got < 0 && errno != EAGAIN)) { upstream_gone(u); return; }
        if (got > 0 && !u->answering) {
            u->length += (size_t)got;
            upstream_request(u);
        }
    }
    if (u->c.fd < 0 || !(events & EPOLLOUT)) return;
    if (!flush(&u->c)) { upstream_gone(u); return; }
    if (u->answering && !u->interval_ns && !pending(&u->c)) upstream_go_on(u);
}

static void accept_all(void) {
    for (int fd; (fd = accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        Upstream *u = free_upstreams;
        if (u) free_upstreams = u->next_free;
        else {
            u = calloc(1, sizeof *u);
            if (!u) die("out of memory");
            u->c.kind = UPSTREAM;
            u->next_all = all_upstreams;
            all_upstreams = u;
        }
        u->length = 0;
        u->answering = false;
        int room = 1 << 17; /* else megabytes would wait in the kernel, and be out of date */
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        opened(&u->c, fd);
    }
}

/* End every stream that goes on until it is told to stop. */
static void stop_streams(void) {
    stopping = true;
    for (Upstream *u = all_upstreams; u; u = u->next_all)
        if (u->c.fd >= 0 && u->answering && !pending(&u->c) && (!u->tokens || u->held)) upstream_go_on(u);
}

/* ---- the clients ---- */

typedef enum { IN_HEAD, IN_SIZE, IN_CHUNK, AFTER_CHUNK, IN_TRAILER, IN_LENGTH, UNTIL_CLOSE } Part;

typedef struct Client {
    Connection c;
    Slot *slot;
    char *stream; /* of a further reader: what it reads */
    bool busy, reused, keep, failed;
    uint64_t id, next, asked_ns;
    Part part;
    size_t remaining, line;
    char *head;
    size_t head_length;
    int marker; /* 0 outside, 1 in the stream's number, 2 in the token's */
    uint64_t marked_id, marked_number;
    char tail[TAIL * 2];
    size_t tail_length;
    struct Client *next_free;
} Client;

static Client *posters[SLOTS], *free_readers;
static size_t active, waiting_first, waiting_starts;
static uint64_t requests_left;
static char seen_error[600];

static void client_start(Client *cl);

static void client_request(Client *cl) {
    char body[512], request[4096];
    int length, size;
    if (cl->stream) {
        char path[400];
        snprintf(path, sizeof path, o.readers_path, cl->stream);
        size = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nhost: %s\r\naccept: text/event-stream\r\n\r\n",
                        path, o.host);
    } else {
        uint64_t interval = o.rate > 0 ? (uint64_t)(1e6 / o.rate) : 0;
        length = snprintf(body, sizeof body,
                          "{\"model\":\"%s\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":"
                          "\"bench:%llu:%llu:%llu:%llu:%s\"}]}",
                          o.model, (unsigned long long)cl->id, (unsigned long long)o.tokens,
                          (unsigned long long)interval, (unsigned long long)o.size, o.act);
        size = snprintf(request, sizeof request,
                        "POST %s HTTP/1.1\r\nhost: %s:%d\r\ncontent-type: application/json\r\n"
                        "accept: text/event-stream\r\nauthorization: Bearer %s\r\n",
                        o.path, o.host, o.relay_port, o.key);
        for (int i = 0; i < o.header_count; i++)
            size += snprintf(request + size, sizeof request - (size_t)size, "%s\r\n", o.headers[i]);
        size += snprintf(request + size, sizeof request - (size_t)size, "content-length: %d\r\n\r\n%s", length, body);
    }
    if (size >= (int)sizeof request) die("the request is too long");
    /* If it is broken, reading ends it; but only this call knows why. */
    if (!put(&cl->c, request, (size_t)size) && !*seen_error)
        snprintf(seen_error, sizeof seen_error, "write: %s", strerror(errno));
}

static bool client_connect(Client *cl) {
    int port = cl->stream && o.readers_port ? o.readers_port : o.relay_port;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (fd < 0) die("socket: %s", strerror(errno));
    inet_pton(AF_INET, o.host, &address.sin_addr);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) {
        close(fd);
        return false;
    }
    cl->c.kind = CLIENT;
    opened(&cl->c, fd);
    return true;
}

/* A client has its answer, whole or not. */
static void client_finished(Client *cl) {
    uint64_t now = now_ns();
    cl->busy = false;
    active--;
    if (m.on) {
        m.requests++;
        times_add(&m.whole, now - cl->asked_ns);
    }
    if (!cl->next && waiting_first) waiting_first--;
    if (cl->slot->cut_ns && m.on && !strcmp(o.mode, "dead")) times_add(&m.noticed, now > cl->slot->cut_ns ? now - cl->slot->cut_ns : 0);
    if (!cl->keep || o.reconnect) closed(&cl->c);
    if (cl->stream) {
        closed(&cl->c);
        free(cl->stream);
        cl->stream = NULL;
        cl->next_free = free_readers;
        free_readers = cl;
    } else if (requests_left) {
        requests_left--;
        client_start(cl);
    }
}

static bool tail_has(Client *cl, const char *words) {
    return memmem(cl->tail, cl->tail_length, words, strlen(words)) != NULL;
}

/* The body is over; `whole` as HTTP sees it. */
static void client_ended(Client *cl, bool whole) {
    bool ended = whole && (tail_has(cl, "[DONE]") || tail_has(cl, "\"status\":\"completed\""));
    if (strcmp(o.act, "end") && strcmp(o.act, "hold")) {
        if (!ended) m.cut++;
        if (tail_has(cl, "error")) m.told++;
    } else if (!cl->failed) {
        if (!whole) m.broken++;
        else if (!ended) m.unended++;
        if (cl->slot->id == cl->id && cl->slot->written > cl->next) m.missing += cl->slot->written - cl->next;
    }
    cl->keep = cl->keep && whole;
    client_finished(cl);
}

static void client_token(Client *cl, uint64_t now) {
    uint64_t number = cl->marked_number;
    if (cl->marked_id != cl->id) { m.foreign++; return; }
    if (number < cl->next) { m.repeated++; return; }
    m.missing += number - cl->next;
    cl->next = number + 1;
    Slot *slot = cl->slot;
    if (!number && waiting_first) waiting_first--;
    if (!m.on) return;
    m.tokens++;
    uint64_t written = slot->which[number % RING] == number ? slot->when[number % RING] : 0;
    if (written) times_add(&m.added, now - written);
    if (!number && !cl->stream) {
        uint64_t theirs = slot->first_ns - slot->asked_ns, all = now - slot->posted_ns;
        times_add(&m.first, all > theirs ? all - theirs : 0);
    }
}

static void client_body(Client *cl, const char *bytes, size_t length, uint64_t now) {
    for (size_t i = 0; i < length; i++) {
        if (!cl->marker) {
            const char *next = memchr(bytes + i, '~', length - i);
            if (!next) break;
            i = (size_t)(next - bytes);
            cl->marker = 1;
            cl->marked_id = cl->marked_number = 0;
            continue;
        }
        char byte = bytes[i];
        uint64_t *value = cl->marker == 1 ? &cl->marked_id : &cl->marked_number;
        if (byte >= '0' && byte <= '9') *value = *value * 10 + (uint64_t)(byte - '0');
        else if (byte == '.' && cl->marker == 1) cl->marker = 2;
        else {
            if (byte == '~' && cl->marker == 2) client_token(cl, now);
            cl->marker = 0;
        }
    }
    if (length >= TAIL) {
        memcpy(cl->tail, bytes + length - TAIL, TAIL);
        cl->tail_length = TAIL;
        return;
    }
    if (cl->tail_length + length > sizeof cl->tail) {
        memmove(cl->tail, cl->tail + cl->tail_length - TAIL, TAIL);
        cl->tail_length = TAIL;
    }
    memcpy(cl->tail + cl->tail_length, bytes, length);
    cl->tail_length += length;
}

/* Open the further readers of a stream whose head has come. */
static void start_readers(Client *cl) {
    char *id = strcasestr(cl->head, "\r\nstream-id:");
    if (!id) { m.status++; return; }
    id += 12 + strspn(id + 12, " ");
    size_t length = strcspn(id, "\r");
    for (uint64_t i = 0; i < o.readers; i++) {
        Client *reader = free_readers;
        if (reader) free_readers = reader->next_free;
        else if (!(reader = calloc(1, sizeof *reader))) die("out of memory");
        else reader->c.fd = -1;
        reader->stream = strndup(id, length);
        reader->slot = cl->slot;
        client_start(reader);
    }
}

/* Read the response's head; give how many of the bytes were the body's. */
static size_t client_head(Client *cl, const char *bytes, size_t length) {
    if (!cl->head && !(cl->head = malloc(HEAD + 1))) die("out of memory");
    size_t before = cl->head_length, room = HEAD - before;
    memcpy(cl->head + before, bytes, length < room ? length : room);
    cl->head_length += length < room ? length : room;
    cl->head[cl->head_length] = 0;
    char *end = strstr(cl->head, "\r\n\r\n");
    if (!end) return 0;
    size_t head = (size_t)(end - cl->head) + 4;
    end[2] = 0;
    int status = atoi(cl->head + 9);
    char *size = strcasestr(cl->head, "\r\ncontent-length:");
    cl->failed = status != 200;
    if (cl->failed) {
        m.status++;
        if (!*seen_error) snprintf(seen_error, sizeof seen_error, "status %d: %.500s", status, end + 4);
    }
    cl->keep = !strcasestr(cl->head, "\r\nconnection: close");
    if (strcasestr(cl->head, "\r\ntransfer-encoding: chunked")) cl->part = IN_SIZE;
    else if (size || status == 204) {
        cl->part = IN_LENGTH;
        cl->remaining = size ? strtoull(size + 17, NULL, 10) : 0;
    } else cl->part = UNTIL_CLOSE, cl->keep = false;
    cl->line = cl->part == IN_SIZE ? 0 : cl->line;
    if (!cl->failed && o.readers && !cl->stream) start_readers(cl);
    return before + length - head;
}

static int hex(char byte) {
    return byte <= '9' ? byte - '0' : (byte | 32) - 'a' + 10;
}

/* Take bytes of the response; true at its end. */
static bool client_bytes(Client *cl, const char *bytes, size_t length, uint64_t now) {
    const char *end = bytes + length;
    if (cl->part == IN_HEAD) {
        size_t body = client_head(cl, bytes, length);
        if (cl->part == IN_HEAD) return false;
        bytes = end - body;
        cl->remaining = cl->part == IN_LENGTH ? cl->remaining : 0;
        if (cl->part == IN_LENGTH && !cl->remaining) return true;
    }
    while (bytes < end) {
        size_t left = (size_t)(end - bytes), part = left < cl->remaining ? left : cl->remaining;
        switch (cl->part) {
        case UNTIL_CLOSE: client_body(cl, bytes, left, now); return false;
        case IN_LENGTH:
        case IN_CHUNK:
            client_body(cl, bytes, part, now);
            bytes += part;
            cl->remaining -= part;
            if (cl->remaining) break;
            if (cl->part == IN_LENGTH) return true;
            cl->part = AFTER_CHUNK;
            break;
        case AFTER_CHUNK:
            if (*bytes++ == '\n') cl->part = IN_SIZE;
            break;
        case IN_SIZE:
            if (isxdigit((unsigned char)*bytes)) cl->remaining = cl->remaining * 16 + (size_t)hex(*bytes);
            if (*bytes++ != '\n') break;
            cl->part = cl->remaining ? IN_CHUNK : IN_TRAILER;
            cl->line = 0;
            break;
        case IN_TRAILER:
            if (*bytes == '\n' && !cl->line) return true;
            cl->line = *bytes == '\n' ? 0 : cl->line + (*bytes != '\r');
            bytes++;
            break;
        case IN_HEAD: return false;
        }
    }
    return false;
}

static void client_begin(Client *cl) {
    cl->part = IN_HEAD;
    cl->head_length = cl->tail_length = cl->remaining = cl->line = 0;
    cl->next = 0;
    cl->marker = 0;
    cl->failed = false;
    client_request(cl);
}

static void client_start(Client *cl) {
    Slot *slot = cl->slot;
    cl->asked_ns = now_ns();
    if (!cl->stream) {
        slot->id = ++serial * SLOTS + (uint64_t)(slot - slots);
        slot->posted_ns = cl->asked_ns;
        slot->written = slot->cut_ns = 0;
        slot->served = false;
    }
    cl->id = slot->id;
    cl->busy = true;
    cl->keep = true;
    active++;
    cl->reused = cl->c.fd >= 0;
    if (!cl->reused && !client_connect(cl)) {
        m.broken++;
        cl->keep = false;
        if (!*seen_error) snprintf(seen_error, sizeof seen_error, "connect: %s", strerror(errno));
        requests_left = 0;
        client_finished(cl);
        return;
    }
    client_begin(cl);
}

static void client_ready(Client *cl, uint32_t events) {
    static char buffer[1 << 18];
    if (cl->c.fd < 0) return;
    if (events & EPOLLOUT) flush(&cl->c);
    ssize_t got = recv(cl->c.fd, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0 && cl->busy) {
        if (client_bytes(cl, buffer, (size_t)got, now_ns())) client_ended(cl, true);
        else if (o.leave && cl->next >= o.leave) {
            cl->keep = false;
            client_finished(cl);
        }
        return;
    }
    if (got > 0) return;
    bool unanswered = cl->busy && cl->reused && !cl->head_length;
    if (!*seen_error && got < 0 && cl->busy) snprintf(seen_error, sizeof seen_error, "read: %s", strerror(errno));
    closed(&cl->c);
    if (!cl->busy) return;
    if (unanswered && client_connect(cl)) { /* an idle connection that closed as we wrote */
        cl->reused = false;
        client_begin(cl);
        return;
    }
    cl->keep = false;
    client_ended(cl, cl->part == UNTIL_CLOSE && got == 0);
}

/* ---- the loop ---- */

static bool done_measuring, settled;
static uint64_t hard_limit;

static void fire(Entry entry) {
    if (entry.connection && entry.timer == NEXT_TOKEN && entry.generation != entry.connection->generation) return;
    switch (entry.timer) {
    case START_CLIENT:
        if (waiting_starts) waiting_starts--;
        client_start((Client *)entry.connection);
        break;
    case NEXT_TOKEN: upstream_go_on((Upstream *)entry.connection); break;
    case MEASURE: {
        uint64_t failed = errors();
        measure_start();
        m.broken = failed; /* what failed while warming up counts as well */
        break;
    }
    case STOP:
        /* The machine stood still, or the relay did: without a token there is nothing to tell. */
        if (!m.tokens && now_ns() < m.start_ns + PATIENCE_S * SECOND) {
            at(now_ns() + (uint64_t)(o.seconds * 1e9), STOP, NULL);
            break;
        }
        measure_end();
        done_measuring = true;
        stop_streams();
        break;
    case NO_MORE: requests_left = 0; break;
    case SETTLED: settled = true; break;
    }
}

static int wait_events(struct epoll_event *events, int room, uint64_t ns) {
#ifdef SYS_epoll_pwait2
    struct timespec timeout = {(time_t)(ns / SECOND), (long)(ns % SECOND)};
    int count = (int)syscall(SYS_epoll_pwait2, epoll_fd, events, room, &timeout, NULL, 0);
    if (count >= 0 || errno != ENOSYS) return count;
#endif
    return epoll_wait(epoll_fd, events, room, (int)((ns + MS - 1) / MS));
}

/* Turn once: what is due, then what is ready. Clients first: their clock must not wait. */
static void turn(void) {
    struct epoll_event events[512];
    uint64_t now = now_ns(), wait = 100 * MS;
    while (heap_length && heap[0].due <= now) {
        fire(heap_pop());
        if (heap_length && heap[0].due > now) break;
    }
    now = now_ns();
    if (heap_length) wait = heap[0].due <= now ? 0 : heap[0].due - now < wait ? heap[0].due - now : wait;
    int count = wait_events(events, 512, wait);
    for (int i = 0; i < count; i++)
        if (((Connection *)events[i].data.ptr)->kind == CLIENT) client_ready(events[i].data.ptr, events[i].events);
    for (int i = 0; i < count; i++) {
        Connection *c = events[i].data.ptr;
        if (c->kind == LISTENER) accept_all();
        else if (c->kind == UPSTREAM) upstream_ready((Upstream *)c, events[i].events);
    }
    if (now_ns() > hard_limit) m.unfinished += active + 1, active = 0, requests_left = 0;
}

static bool out_of_time(void) { return now_ns() > hard_limit; }

static Client *poster(uint64_t number) {
    if (!posters[number]) {
        posters[number] = calloc(1, sizeof(Client));
        if (!posters[number]) die("out of memory");
        posters[number]->c.fd = -1;
        posters[number]->c.kind = CLIENT;
        posters[number]->slot = &slots[number];
    }
    return posters[number];
}

static void start_all(uint64_t streams, double spread) {
    uint64_t now = now_ns();
    stopping = done_measuring = settled = false;
    waiting_first = streams;
    for (uint64_t i = 0; i < streams; i++)
        at(now + (uint64_t)(spread * 1e9 * (double)i / (double)streams), START_CLIENT, &poster(i)->c);
}

/* Wait for the clients to end; cut those that do not within so many seconds. */
static void drain(double seconds) {
    uint64_t limit = now_ns() + (uint64_t)(seconds * 1e9);
    while ((active || requests_left) && !out_of_time() && now_ns() < limit) turn();
    for (uint64_t i = 0; i < SLOTS; i++) {
        if (!posters[i] || !posters[i]->busy) continue;
        m.unfinished++;
        closed(&posters[i]->c);
        posters[i]->busy = false;
    }
    active = 0;
    for (Upstream *u = all_upstreams; u; u = u->next_all)
        if (u->c.fd >= 0 && u->answering) upstream_gone(u);
    heap_length = 0;
}

static void settle(double seconds) {
    settled = false;
    at(now_ns() + (uint64_t)(seconds * 1e9), SETTLED, NULL);
    while (!settled && !out_of_time()) turn();
}

/* ---- the modes ---- */

static void run_window(uint64_t streams) {
    uint64_t now = now_ns(), lead = (uint64_t)((o.spread + o.warmup) * 1e9);
    o.tokens = 0;
    memset(&m, 0, sizeof m);
    start_all(streams, o.spread);
    at(now + lead, MEASURE, NULL);
    at(now + lead + (uint64_t)(o.seconds * 1e9), STOP, NULL);
    while (!done_measuring && !out_of_time()) turn();
    if (!done_measuring) measure_end();
    drain(10);
}

/* Make so many requests, or with 0 as many as fit. */
static void run_work(uint64_t streams, uint64_t requests) {
    if (!requests) {
        requests = UINT64_MAX;
        at(now_ns() + (uint64_t)(o.seconds * 1e9), NO_MORE, NULL);
    }
    if (streams > requests) streams = requests;
    measure_start();
    requests_left = requests - streams;
    waiting_starts = streams;
    start_all(streams, streams > 1 ? o.spread : 0);
    while ((active || requests_left || waiting_starts) && !out_of_time()) turn();
    measure_end();
    drain(0);
}

static void run_requests(void) {
    uint64_t tokens = o.tokens;
    double rate = o.rate;
    if (o.preload) {
        o.rate = 20;
        double seconds = o.seconds;
        o.seconds = 1;
        run_window(o.preload);
        o.seconds = seconds;
        settle(o.settle);
    }
    o.rate = rate;
    o.tokens = tokens ? tokens : 1;
    if (o.warmup_requests) run_work(o.streams, o.warmup_requests);
    uint64_t failed = errors();
    run_work(o.streams, o.requests);
    m.broken += failed;
}

/* Hold streams open after a token each; give the KiB that each costs. */
static double run_idle(void) {
    uint64_t streams = o.streams;
    double before = 0, after = 0;
    o.tokens = 1;
    o.act = "hold";
    for (int round = 0; round < 2; round++) {
        uint64_t count = round ? streams : 20;
        before = of_relay(pss_of);
        measure_start();
        start_all(count, o.spread);
        while (waiting_first && !out_of_time()) turn();
        settle(o.settle);
        after = of_relay(pss_of);
        measure_end();
        stop_streams();
        drain(10);
        if (!round) settle(o.settle);
    }
    return (after - before) / (double)streams;
}

static bool bearable(void) {
    return !errors() && times_ms(&m.added, 0.99) < o.p99_ms && (double)m.tokens > 0.98 * (double)m.written;
}

/* Find the most streams that stay under the limit; leave their figures in `m`. */
static uint64_t run_search(void) {
    static __typeof__(m) best;
    uint64_t good = 0, bad = 0, streams = o.streams;
    while (!out_of_time()) {
        run_window(streams);
        for (int again = 0; again < 2 && !bearable() && m.cpu_s < 0.9 * o.seconds && !errors(); again++)
            run_window(streams); /* the machine's fault, perhaps */
        bool well = bearable();
        fprintf(stderr, "  %llu streams: p99 %.1f ms, %.1f us a token, %llu errors\n",
                (unsigned long long)streams, times_ms(&m.added, 0.99),
                m.cpu_s / (double)m.tokens * 1e6, (unsigned long long)errors());
        if (well) good = streams, best = m;
        else bad = streams;
        if (well && streams >= o.max_streams) break;
        if (bad && !good && streams < 3) break;
        if (bad && (double)(bad - good) <= o.precision * (double)good + 2) break;
        streams = bad ? (good + bad) / 2 : (uint64_t)((double)streams * o.step) + 1;
        if (streams > o.max_streams) streams = o.max_streams;
        settle(well ? 0.3 : 1);
    }
    m = best;
    return good;
}

static char *stream_of(Client *cl) {
    char *id = cl->head ? strcasestr(cl->head, "\r\nstream-id:") : NULL;
    if (!id) return NULL;
    id += 12 + strspn(id + 12, " ");
    return strndup(id, strcspn(id, "\r"));
}

static void run_replay(void) {
    if (!o.tokens) o.tokens = 100000;
    o.rate = 0;
    memset(&m, 0, sizeof m);
    run_work(1, 1);
    uint64_t failed = errors();
    measure_start();
    m.broken = failed;
    for (uint64_t i = 0; i < o.requests && !out_of_time(); i++) {
        Client *reader = calloc(1, sizeof *reader);
        if (!reader) die("out of memory");
        reader->c.fd = -1;
        reader->slot = &slots[0];
        if (!(reader->stream = stream_of(poster(0)))) { m.status++; break; }
        client_start(reader);
        while (active && !out_of_time()) turn();
    }
    measure_end();
}

static void run_dead(void) {
    if (!strcmp(o.act, "end")) o.act = "die";
    if (!o.tokens) o.tokens = 20;
    run_work(o.streams, o.streams);
}

/* ---- what it prints ---- */

static void print_times(const char *name, const Times *times) {
    if (!times->n) return;
    printf("\"%s\": {\"n\": %llu, \"p50\": %.4f, \"p90\": %.4f, \"p99\": %.4f, \"p999\": %.4f, \"max\": %.4f}, ",
           name, (unsigned long long)times->n, times_ms(times, 0.5), times_ms(times, 0.9), times_ms(times, 0.99),
           times_ms(times, 0.999), (double)times->max / 1e6);
}

static void print_count(const char *name, uint64_t count) {
    printf("\"%s\": %llu, ", name, (unsigned long long)count);
}

static void print_errors(void) {
    printf("\"errors\": {");
    print_count("missing", m.missing);
    print_count("repeated", m.repeated);
    print_count("foreign", m.foreign);
    print_count("unended", m.unended);
    print_count("broken", m.broken);
    print_count("status", m.status);
    print_count("retried", m.retried);
    printf("\"unfinished\": %llu}", (unsigned long long)m.unfinished);
    if (!*seen_error) return;
    printf(", \"first_error\": \"");
    for (char *c = seen_error; *c; c++)
        if (*c == '"' || *c == '\\') printf("\\%c", *c);
        else if ((unsigned char)*c >= 32 && (unsigned char)*c < 127) putchar(*c);
        else putchar(' ');
    putchar('"');
}

static void print_result(uint64_t streams, double kib) {
    double seconds = (double)(m.end_ns - m.start_ns) / 1e9;
    printf("{\"mode\": \"%s\", ", o.mode);
    print_count("streams", streams);
    print_count("readers", o.readers);
    print_count("tokens", m.tokens);
    print_count("written", m.written);
    print_count("requests", m.requests);
    if (!strcmp(o.mode, "dead")) print_count("cut", m.cut), print_count("told", m.told);
    printf("\"seconds\": %.3f, \"tokens_per_s\": %.0f, ", seconds, seconds > 0 ? (double)m.tokens / seconds : 0.0);
    if (o.pid_count) {
        printf("\"cpu_s\": %.6f, \"busy\": %.3f, ", m.cpu_s, seconds > 0 ? m.cpu_s / seconds : 0.0);
        for (int i = 0; i < o.pid_count; i++)
            printf("%s%.6f%s", i ? ", " : "\"each_cpu_s\": [", m.each_s[i], i + 1 < o.pid_count ? "" : "], ");
        if (m.tokens) printf("\"us_per_token\": %.2f, ", m.cpu_s / (double)m.tokens * 1e6);
        if (m.requests) printf("\"us_per_request\": %.1f, ", m.cpu_s / (double)m.requests * 1e6);
        if (kib > -1e9) printf("\"kib_per_stream\": %.2f, ", kib);
    }
    print_times("added_ms", &m.added);
    print_times("first_ms", &m.first);
    print_times("whole_ms", &m.whole);
    print_times("noticed_ms", &m.noticed);
    print_times("late_ms", &m.late);
    printf("\"generator_busy\": %.3f, ", seconds > 0 ? m.own_cpu_s / seconds : 0.0);
    print_errors();
    printf("}\n");
}

/* ---- entry ---- */

static void listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int yes = 1;
    inet_pton(AF_INET, o.host, &address.sin_addr);
    listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener.fd, (struct sockaddr *)&address, sizeof address) || listen(listener.fd, 4096))
        die("cannot listen on %s:%d: %s", o.host, port, strerror(errno));
    watch(&listener, EPOLLIN);
}

static void read_options(int count, char **words) {
    if (count < 2 || !strcmp(words[1], "--help")) {
        fputs(HELP, count < 2 ? stderr : stdout);
        exit(count < 2 ? 2 : 0);
    }
    o.mode = words[1];
    if (!strcmp(o.mode, "flood") || !strcmp(o.mode, "requests") || !strcmp(o.mode, "work")) o.rate = 0;
    if (!strcmp(o.mode, "flood")) o.streams = 16;
    if (!strcmp(o.mode, "requests")) o.streams = 1, o.requests = 0;
    if (!strcmp(o.mode, "replay")) o.requests = 3;
    if (!strcmp(o.mode, "dead")) o.streams = 20;
    for (int i = 2; i < count; i++) {
        const char *name = words[i];
        if (!strcmp(name, "--reconnect")) { o.reconnect = true; continue; }
        if (++i >= count) die("%s needs a value", name);
        const char *value = words[i];
#define TEXT_OPTION(option, field) if (!strcmp(name, option)) { o.field = value; continue; }
#define WHOLE_OPTION(option, field) if (!strcmp(name, option)) { o.field = strtoull(value, NULL, 10); continue; }
#define REAL_OPTION(option, field) if (!strcmp(name, option)) { o.field = strtod(value, NULL); continue; }
        TEXT_OPTION("--host", host) TEXT_OPTION("--path", path) TEXT_OPTION("--model", model)
        TEXT_OPTION("--key", key) TEXT_OPTION("--readers-path", readers_path) TEXT_OPTION("--act", act)
        WHOLE_OPTION("--streams", streams) WHOLE_OPTION("--tokens", tokens)
        WHOLE_OPTION("--requests", requests) WHOLE_OPTION("--warmup-requests", warmup_requests)
        WHOLE_OPTION("--readers", readers) WHOLE_OPTION("--preload", preload)
        WHOLE_OPTION("--max-streams", max_streams) WHOLE_OPTION("--size", size)
        WHOLE_OPTION("--slice", slice) WHOLE_OPTION("--gap-us", gap_us) WHOLE_OPTION("--leave", leave)
        REAL_OPTION("--step", step) REAL_OPTION("--precision", precision)
        REAL_OPTION("--rate", rate) REAL_OPTION("--seconds", seconds) REAL_OPTION("--warmup", warmup)
        REAL_OPTION("--spread", spread) REAL_OPTION("--limit", limit_s) REAL_OPTION("--settle", settle)
        REAL_OPTION("--p99-ms", p99_ms)
        if (!strcmp(name, "--listen")) { o.listen_port = atoi(value); continue; }
        if (!strcmp(name, "--relay")) { o.relay_port = atoi(value); continue; }
        if (!strcmp(name, "--readers-port")) { o.readers_port = atoi(value); continue; }
        if (!strcmp(name, "--header") && o.header_count < 16) { o.headers[o.header_count++] = value; continue; }
        if (!strcmp(name, "--pid") && o.pid_count < PIDS) { o.pids[o.pid_count++] = atoi(value); continue; }
        die("unknown option %s; `load --help` lists them", name);
    }
    if (!o.listen_port) die("--listen PORT is missing: where the upstream listens");
    if (!o.relay_port && strcmp(o.mode, "serve")) die("--relay PORT is missing");
    if (!o.streams || o.streams > SLOTS || o.preload > SLOTS || o.max_streams > SLOTS) die("streams: from 1 to %d", SLOTS);
}

int main(int count, char **words) {
    struct rlimit files;
    double kib = -1e10;
    read_options(count, words);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1000);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    uint64_t most = strcmp(o.mode, "search") ? o.streams : o.max_streams;
    if (files.rlim_cur < most * (2 + o.readers) + 64)
        die("%llu files at most may be open here; --streams %llu needs more", (unsigned long long)files.rlim_cur,
            (unsigned long long)most);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    listen_on(o.listen_port);
    hard_limit = now_ns() + (uint64_t)(o.limit_s * 1e9);
    uint64_t streams = o.streams;
    if (!strcmp(o.mode, "paced")) run_window(streams);
    else if (!strcmp(o.mode, "flood")) o.rate = 0, run_window(streams);
    else if (!strcmp(o.mode, "work")) o.tokens = o.tokens ? o.tokens : 100, run_requests();
    else if (!strcmp(o.mode, "requests")) run_requests();
    else if (!strcmp(o.mode, "idle")) kib = run_idle();
    else if (!strcmp(o.mode, "search")) streams = run_search();
    else if (!strcmp(o.mode, "replay")) run_replay();
    else if (!strcmp(o.mode, "dead")) run_dead();
    else if (!strcmp(o.mode, "serve")) { settle(o.seconds); return 0; }
    else die("unknown mode %s; `load --help` lists them", o.mode);
    print_result(streams, kib);
    return errors() ? 1 : 0;
}
