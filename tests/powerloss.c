/* What a process writes and when it syncs that, by LD_PRELOAD.
 *
 * Every write, truncation, sync, link and removal of files whose names begin with POWERLOSS_PREFIX
 * is appended to the file POWERLOSS_LOG as a record: kind, path, offset, length, bytes.
 * `faults.power_cuts` builds from it the files that a disk may hold after a power cut at any moment:
 * all that was synced, and of the rest any part.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int log_fd = -1;
static const char *prefix = NULL;

static void begin(void) {
  if (log_fd >= 0 || getenv("POWERLOSS_LOG") == NULL) return;
  int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
  prefix = getenv("POWERLOSS_PREFIX");
  log_fd = real_open(getenv("POWERLOSS_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
}

static int watched(int fd, char *path) {
  char link[64];
  begin();
  if (log_fd < 0 || prefix == NULL) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, PATH_MAX - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return strncmp(path, prefix, strlen(prefix)) == 0;
}

static void record(char kind, const char *path, uint64_t offset, uint64_t length, const void *data) {
  ssize_t (*real_write)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
  uint16_t name = (uint16_t)strlen(path);
  size_t body = data == NULL ? 0 : length, size = 1 + 2 + name + 8 + 8 + body, at = 0;
  char *all = malloc(size);
  all[at++] = kind;
  memcpy(all + at, &name, 2), at += 2;
  memcpy(all + at, path, name), at += name;
  memcpy(all + at, &offset, 8), at += 8;
  memcpy(all + at, &length, 8), at += 8;
  if (body) memcpy(all + at, data, body);
  if (real_write(log_fd, all, size) < 0) abort();
  free(all);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t offset) {
  ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
  char path[PATH_MAX];
  ssize_t done = real(fd, data, n, offset);
  if (done > 0 && watched(fd, path)) record('w', path, (uint64_t)offset, (uint64_t)done, data);
  return done;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) {
  return pwrite64(fd, data, n, offset);
}

ssize_t write(int fd, const void *data, size_t n) {
  ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
  char path[PATH_MAX];
  int seen = fd > 2 && fd != log_fd && watched(fd, path);
  off_t offset = seen ? lseek(fd, 0, SEEK_CUR) : 0;
  ssize_t done = real(fd, data, n);
  if (done > 0 && seen) record('w', path, (uint64_t)offset, (uint64_t)done, data);
  return done;
}

static int truncated(int fd, off64_t length, const char *name) {
  int (*real)(int, off64_t) = dlsym(RTLD_NEXT, name);
  char path[PATH_MAX];
  int done = real(fd, length);
  if (done == 0 && watched(fd, path)) record('t', path, (uint64_t)length, 0, NULL);
  return done;
}

int ftruncate64(int fd, off64_t length) { return truncated(fd, length, "ftruncate64"); }
int ftruncate(int fd, off_t length) { return truncated(fd, length, "ftruncate"); }

static int synced(int fd, const char *name) {
  int (*real)(int) = dlsym(RTLD_NEXT, name);
  char path[PATH_MAX];
  int done = real(fd);
  if (done == 0 && watched(fd, path)) record('s', path, 0, 0, NULL);
  return done;
}

int fsync(int fd) { return synced(fd, "fsync"); }
int fdatasync(int fd) { return synced(fd, "fdatasync"); }

static void renamed(char kind, const char *from, const char *to) {
  char target[PATH_MAX], source[PATH_MAX];
  begin();
  if (log_fd < 0 || prefix == NULL) return;
  if (realpath(to, target) == NULL) return;
  if (strncmp(target, prefix, strlen(prefix)) != 0) return;
  if (realpath(from, source) == NULL) snprintf(source, sizeof source, "%s", from);
  record(kind, target, 0, strlen(source), source);
}

int link(const char *from, const char *to) {
  int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "link");
  int done = real(from, to);
  if (done == 0) renamed('l', from, to);
  return done;
}

int unlink(const char *path) {
  int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
  char whole[PATH_MAX];
  begin();
  int seen = log_fd >= 0 && prefix != NULL && realpath(path, whole) != NULL &&
             strncmp(whole, prefix, strlen(prefix)) == 0;
  int done = real(path);
  if (done == 0 && seen) record('u', whole, 0, 0, NULL);
  return done;
}

/* An acknowledgement: the program says that something is on the disk. */
void powerloss_mark(uint64_t number) {
  begin();
  if (log_fd >= 0) record('a', "", number, 0, NULL);
}
