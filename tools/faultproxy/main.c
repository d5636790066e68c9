/* SPDX-License-Identifier: Apache-2.0 */
/* faultproxy: a TCP or UDP proxy that injects faults between two programs, for tests and for people. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/faultproxy/clock.h"
#include "tools/faultproxy/control.h"
#include "tools/faultproxy/proxy.h"
#include "tools/faultproxy/script.h"
#include "tools/faultproxy/text.h"

enum { EXIT_GOOD, EXIT_BAD, EXIT_USAGE };

#define BUFFER_KIB_DEFAULT 256u
#define BUFFER_KIB_MAX     16384u

struct options {
    const char *listen;
    const char *to;
    const char *control;
    const char *script;
    const char *seed;
    const char *buffer;
    bool is_udp;
    bool wants_help;
};

static const char usage[] =
    "usage: faultproxy --listen HOST:PORT --to HOST:PORT [--udp] [--control PATH] [--script FILE]\n"
    "                  [--seed N] [--buffer KIB]\n";

static const char help[] =
    "A proxy for TCP, or with --udp for UDP, that injects faults. When it serves it prints the "
    "line\n"
    "`listening HOST:PORT`; port 0 lets the system choose one. SIGTERM ends it with status 0.\n"
    "\n"
    "  --listen HOST:PORT  where clients connect; [::1]:PORT for IPv6\n"
    "  --to HOST:PORT      the server\n"
    "  --udp               proxy datagrams; each client address is a connection\n"
    "  --control PATH      UNIX socket (0600) for commands, one per line; each is answered by one "
    "line\n"
    "                      `ok`, `ok KEY=VALUE ...` or `error: what, and what to do`\n"
    "  --script FILE       commands, one per line, done in order; # begins a comment line. The "
    "file is\n"
    "                      checked before the proxy serves; errors: FILE:LINE: message, exit "
    "status 2\n"
    "  --seed N            loss, dup, reorder and jitter repeat with it (default 1)\n"
    "  --buffer KIB        what each direction of a connection holds at most (default 256). A TCP "
    "sender\n"
    "                      is slowed down when it is full, datagrams are lost. It bounds the\n"
    "                      throughput under delay: KIB per MS of delay\n"
    "\n"
    "Commands. up = from client to server; without a direction both. existing = the connections "
    "there\n"
    "are, new = those to come; without a scope all. Faults add up; `pass` clears them, a command\n"
    "replaces its own former values. `connections=N` in an answer: how many existing ones it was "
    "for.\n"
    "\n";

static const char help_end[] =
    "\n"
    "Ends of connections travel behind the bytes, with the same delay; resets are passed on as "
    "resets.\n"
    "\n"
    "Example: faultproxy --listen 127.0.0.1:0 --to 127.0.0.1:7400 --control /tmp/fp &\n"
    "         echo 'delay 100 20 down' | nc -N -U /tmp/fp\n";

static int print_help(void)
{
    struct fp_text text = {0};
    fp_text_add(&text, "%s%s", usage, help);
    fp_command_print_help(&text);
    fp_text_add(&text, "\nCounters of stats:\n");
    fp_stats_print_help(&text);
    fp_text_add(&text, "%s", help_end);
    int status = fputs(text.data, stdout) < 0 || fflush(stdout) != 0 ? EXIT_BAD : EXIT_GOOD;
    fp_text_fini(&text);
    return status;
}

static int complain(int status, const char *about, const char *what)
{
    (void)fprintf(stderr, "faultproxy: %s: %s\n", about, what); /* nothing to do about a failure */
    if (status == EXIT_USAGE) (void)fprintf(stderr, "%s`--help` says more\n", usage); /* as above */
    return status;
}

static int read_options(int argc, char **argv, struct options *out)
{
    const struct {
        const char *name;
        const char **value;
    } known[] = {
        {"--listen", &out->listen}, {"--to", &out->to},     {"--control", &out->control},
        {"--script", &out->script}, {"--seed", &out->seed}, {"--buffer", &out->buffer},
    };
    for (int i = 1; i < argc; i++) {
        const char **value = NULL;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            out->wants_help = true;
            return EXIT_GOOD;
        }
        if (strcmp(argv[i], "--udp") == 0) {
            out->is_udp = true;
            continue;
        }
        for (unsigned k = 0; k < sizeof known / sizeof known[0]; k++) {
            if (strcmp(argv[i], known[k].name) == 0) value = known[k].value;
        }
        if (value == NULL) return complain(EXIT_USAGE, argv[i], "there is no such option");
        if (i + 1 == argc) return complain(EXIT_USAGE, argv[i], "its value is missing");
        *value = argv[++i];
    }
    if (out->listen == NULL) return complain(EXIT_USAGE, "--listen", "is missing");
    if (out->to == NULL) return complain(EXIT_USAGE, "--to", "is missing");
    return EXIT_GOOD;
}

static bool read_number(const char *text, uint64_t most, uint64_t *out_value)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value > most) return false;
    *out_value = value;
    return true;
}

static int plan_proxy(const struct options *options, struct fp_proxy *proxy)
{
    uint64_t seed = 1;
    uint64_t buffer_kib = BUFFER_KIB_DEFAULT;
    const char *error = fp_address_parse(options->listen, &proxy->bound);
    if (error != NULL) return complain(EXIT_USAGE, options->listen, error);
    error = fp_address_parse(options->to, &proxy->plan.server);
    if (error != NULL) return complain(EXIT_USAGE, options->to, error);
    if (options->seed != NULL && !read_number(options->seed, UINT64_MAX, &seed)) {
        return complain(EXIT_USAGE, options->seed, "not a number");
    }
    if (options->buffer != NULL &&
        (!read_number(options->buffer, BUFFER_KIB_MAX, &buffer_kib) || buffer_kib == 0)) {
        return complain(EXIT_USAGE, options->buffer, "not a number from 1 to 16384");
    }
    proxy->plan.seed = seed;
    proxy->plan.buffer_bytes = (size_t)buffer_kib * 1024;
    proxy->is_udp = options->is_udp;
    return EXIT_GOOD;
}

/* Signals that end the proxy come through a descriptor; -1 with errno. */
static int open_signals(void)
{
    sigset_t set;
    struct rlimit files;
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail; answers to who is gone are errors, not ends */
    /* Two descriptors for each connection are more than most systems give at first. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* then it serves fewer */
    }
    if (sigemptyset(&set) != 0 || sigaddset(&set, SIGTERM) != 0 || sigaddset(&set, SIGINT) != 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int serve(struct fp_proxy *proxy, struct fp_control *control, struct fp_script *script,
                 int signals)
{
    struct fp_pollset set = {0};
    int status = EXIT_GOOD;
    int64_t now_us = fp_now_us();
    fp_script_start(script, now_us);
    while (true) {
        int64_t wake_us = FP_NEVER;
        if (!fp_script_run(script, proxy, now_us, &wake_us)) status = EXIT_BAD;
        if (status != EXIT_GOOD || proxy->is_quitting) break;
        fp_pollset_clear(&set);
        size_t signals_at = fp_pollset_add(&set, signals, POLLIN);
        fp_proxy_prepare(proxy, &set, &wake_us, now_us);
        fp_control_prepare(control, proxy, &set, &wake_us, now_us);
        fp_pollset_wait(&set, now_us, wake_us);
        if (fp_pollset_events(&set, signals_at) != 0) break;
        now_us = fp_now_us();
        fp_proxy_run(proxy, &set, now_us);
        fp_control_run(control, proxy, &set, now_us);
    }
    fp_pollset_fini(&set);
    return status;
}

static int run(const struct options *options, struct fp_proxy *proxy, struct fp_control *control,
               struct fp_script *script)
{
    char bound[FP_ADDRESS_TEXT_MAX];
    int status = plan_proxy(options, proxy);
    if (status != EXIT_GOOD) return status;
    if (!fp_script_read(script, options->script, options->is_udp)) return EXIT_USAGE;
    int signals = open_signals();
    if (signals < 0) return complain(EXIT_BAD, "signals", strerror(errno));
    const char *error = fp_control_open(control, options->control);
    if (error != NULL) {
        status = complain(EXIT_BAD, options->control, error);
    } else if (!fp_proxy_listen(proxy)) {
        status = complain(EXIT_BAD, options->listen, strerror(errno));
    } else {
        fp_address_format(&proxy->bound, bound, sizeof bound);
        (void)printf("listening %s\n", bound); /* who does not hear it will not connect */
        (void)fflush(stdout);
        status = serve(proxy, control, script, signals);
    }
    fp_control_close(control);
    (void)close(signals); /* nothing to lose */
    return status;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct fp_script script = {0};
    int status = read_options(argc, argv, &options);
    if (status != EXIT_GOOD) return status;
    if (options.wants_help) return print_help();
    /* Too large for the stack. */
    struct fp_proxy *proxy = fp_alloc(sizeof *proxy);
    struct fp_control *control = fp_alloc(sizeof *control);
    proxy->listener = -1;
    status = run(&options, proxy, control, &script);
    fp_proxy_fini(proxy);
    fp_script_fini(&script);
    free(control);
    free(proxy);
    return status;
}
