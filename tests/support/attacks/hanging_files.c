/* A file system that hangs: while the file $HANGS is there, calls for names that begin with $HANGING do not return.
   The first one makes the file $HANGS.reached. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void wait_for(const char *name) {
    const char *hanging = getenv("HANGING"), *flag = getenv("HANGS");
    char reached[4096];
    if (!hanging || !flag || !name || strncmp(name, hanging, strlen(hanging)))
        return;
    snprintf(reached, sizeof reached, "%s.reached", flag);
    while (!syscall(SYS_faccessat, AT_FDCWD, flag, F_OK)) {
        close(syscall(SYS_openat, AT_FDCWD, reached, O_CREAT | O_WRONLY, 0600));
        usleep(50000);
    }
}

#define NEXT(result, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, __func__))
#define OPEN(function)                                                                                                 \
    int function(const char *name, int flags, ...) {                                                                   \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode_t mode = va_arg(list, mode_t);                                                                            \
        va_end(list);                                                                                                  \
        wait_for(name);                                                                                                \
        return NEXT(int, const char *, int, ...)(name, flags, mode);                                                   \
    }
#define STAT(function, buffer)                                                                                         \
    int function(const char *name, struct buffer *status) {                                                            \
        wait_for(name);                                                                                                \
        return NEXT(int, const char *, struct buffer *)(name, status);                                                 \
    }
OPEN(open)
OPEN(open64)
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)
int fstatat64(int folder, const char *name, struct stat64 *status, int flags) {
    wait_for(name);
    return NEXT(int, int, const char *, struct stat64 *, int)(folder, name, status, flags);
}
int execve(const char *name, char *const arguments[], char *const variables[]) {
    wait_for(name);
    return NEXT(int, const char *, char *const[], char *const[])(name, arguments, variables);
}
int execv(const char *name, char *const arguments[]) {
    return execve(name, arguments, environ);
}
DIR *opendir(const char *name) {
    wait_for(name);
    return NEXT(DIR *, const char *)(name);
}
FILE *fopen64(const char *name, const char *mode) {
    wait_for(name);
    return NEXT(FILE *, const char *, const char *)(name, mode);
}
