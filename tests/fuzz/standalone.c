/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives a fuzz target without libFuzzer: every file of the corpus as it is, every truncation of it,
 * and a fixed number of seeded mutations. The same inputs on every run, so that a failure repeats; an
 * input that crashes is named by file and variation before it runs.
 * A missing or empty corpus is a failure: a target that saw no byte has tested nothing.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

#define INPUT_BYTES_MAX ((size_t)1 << 20)
#define FILES_MAX       4096u
/* Truncations are quadratic in the size of the file; beyond this every step-th one is run. */
#define TRUNCATIONS_MAX 2048u
#define MUTATIONS       512u
#define EDITS_MAX       8u

/* Present in sanitizer builds only; such a runtime exits without a signal. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

struct corpus {
    char *paths[FILES_MAX];
    size_t count;
};

/* A file-scope value because the handler of a fatal signal has no argument of ours. */
static char running[512];

static void say_what_ran(void)
{
    (void)!write(STDERR_FILENO, running, strlen(running)); /* dying anyway */
}

static void on_signal(int number)
{
    say_what_ran();
    signal(number, SIG_DFL);
    raise(number);
}

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t word = (*state += 0x9e3779b97f4a7c15u);
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static int corpus_read(const char *folder, struct corpus *corpus)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        perror(folder);
        return -1;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') continue;
        size_t size = strlen(folder) + strlen(entry->d_name) + 2;
        char *path = malloc(size);
        if (path == NULL || corpus->count == FILES_MAX) abort();
        snprintf(path, size, "%s/%s", folder, entry->d_name);
        corpus->paths[corpus->count++] = path;
    }
    closedir(dir);
    if (corpus->count == 0) fprintf(stderr, "%s: no files\n", folder);
    qsort(corpus->paths, corpus->count, sizeof corpus->paths[0], by_name);
    return corpus->count > 0 ? 0 : -1;
}

static uint8_t *file_read(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(INPUT_BYTES_MAX + 1);
    if (file == NULL || bytes == NULL) {
        perror(path);
        exit(1);
    }
    *out_size = fread(bytes, 1, INPUT_BYTES_MAX + 1, file);
    if (ferror(file) || *out_size > INPUT_BYTES_MAX) {
        fprintf(stderr, "%s: unreadable or larger than %zu bytes\n", path, INPUT_BYTES_MAX);
        exit(1);
    }
    fclose(file);
    return bytes;
}

/* The input gets a block of exactly its size, so that a sanitizer sees the first byte read past it. */
static void run(const char *path, const char *variation, unsigned long number, const uint8_t *data,
                size_t size)
{
    snprintf(running, sizeof running, "crashed on %s, %s %lu\n", path, variation, number);
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact == NULL) abort();
    if (size > 0) memcpy(exact, data, size);
    (void)LLVMFuzzerTestOneInput(exact, size); /* the value is reserved and always 0 */
    free(exact);
}

/* Edits as a fuzzer makes them: flips, interesting bytes, removed, repeated and inserted runs. */
static size_t mutate(uint8_t *bytes, size_t size, size_t capacity, uint64_t *seed)
{
    static const uint8_t telling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0xdd, 0xdf, 0xc6, '\n', '"'};
    size_t edits = 1 + (size_t)next_random(seed) % EDITS_MAX;
    for (size_t i = 0; i < edits; i++) {
        size_t at = size > 0 ? (size_t)(next_random(seed) % size) : 0;
        size_t run_size = 1 + (size_t)(next_random(seed) % 16);
        uint64_t kind = next_random(seed) % 5;
        if (kind == 0 && size > 0) {
            bytes[at] ^= (uint8_t)(1u << (next_random(seed) % 8));
        } else if (kind == 1 && size > 0) {
            bytes[at] = telling[next_random(seed) % sizeof telling];
        } else if (kind == 2 && size > 0) {
            if (run_size > size - at) run_size = size - at;
            memmove(bytes + at, bytes + at + run_size, size - at - run_size);
            size -= run_size;
        } else if (size + run_size <= capacity) {
            memmove(bytes + at + run_size, bytes + at, size - at);
            for (size_t j = 0; kind == 3 && j < run_size; j++)
                bytes[at + j] = (uint8_t)next_random(seed);
            size += run_size;
        }
    }
    return size;
}

static void run_variations(const char *path)
{
    size_t size;
    uint8_t *original = file_read(path, &size);
    size_t capacity = size + EDITS_MAX * 16;
    uint8_t *changed = malloc(capacity);
    if (changed == NULL) abort();

    run(path, "as it is", 0, original, size);
    size_t step = 1 + size / TRUNCATIONS_MAX;
    for (size_t keep = 0; keep < size; keep += step) run(path, "cut to", keep, original, keep);
    for (unsigned long i = 0; i < MUTATIONS; i++) {
        uint64_t seed = i;
        memset(changed, 0, capacity);
        memcpy(changed, original, size);
        run(path, "mutation", i, changed, mutate(changed, size, capacity, &seed));
    }
    free(changed);
    free(original);
}

static void corpus_free(struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->count; i++) free(corpus->paths[i]);
    free(corpus);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    struct corpus *corpus = calloc(1, sizeof *corpus);
    if (corpus == NULL) return 1;
    if (corpus_read(argv[1], corpus) != 0) {
        corpus_free(corpus);
        return 1;
    }
    signal(SIGABRT, on_signal);
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(say_what_ran);
    } else {
        signal(SIGSEGV, on_signal);
    }
    for (size_t i = 0; i < corpus->count; i++) run_variations(corpus->paths[i]);
    printf("%zu files, %u mutations each, and their truncations\n", corpus->count, MUTATIONS);
    corpus_free(corpus);
    return 0;
}
