/* A hostile resolver for a child: hangs.example never answers, many.example has 4,000 addresses of this machine. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADDRESSES = 4000 };

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    if (node && strstr(node, "hangs.example")) {
        close(open(getenv("HANGS"), O_CREAT | O_WRONLY, 0644));
        for (;;)
            pause();
    }
    if (!node || strcmp(node, "many.example"))
        return real(node, service, hints, result);
    *result = NULL;
    for (int at = 0; at < ADDRESSES; at++) {
        struct addrinfo *one = calloc(1, sizeof *one + sizeof(struct sockaddr_in));
        struct sockaddr_in *address = (struct sockaddr_in *)(one + 1);
        address->sin_family = AF_INET;
        address->sin_addr.s_addr = htonl(0x7f020000u + (unsigned)at);
        *one = (struct addrinfo){.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_addrlen = sizeof *address,
                                 .ai_addr = (struct sockaddr *)address, .ai_next = *result};
        *result = one;
    }
    return 0;
}

void freeaddrinfo(struct addrinfo *list) { (void)list; }
