/* A fault of each kind that the sanitizers must find, made on purpose: planted KIND. Without a fault of that
 * name: exit code 64. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept;

static int leak(void) {
        kept = malloc(100);
        kept = NULL;
        return 0;
}

static int use_after_free(void) {
        char *p = malloc(100);

        kept = p;
        free(p);
        return *(volatile char *) kept;
}

static int heap_overflow(void) {
        kept = calloc(1, 100);
        return ((volatile char *) kept)[100];
}

static int stack_overflow(void) {
        char on_stack[10] = "";
        volatile size_t at = sizeof(on_stack);

        kept = on_stack;
        return ((volatile char *) kept)[at];
}

static int undefined(void) {
        volatile int n = INT_MAX;

        n++;
        return n;
}

int main(int argc, char **argv) {
        static const struct { const char *kind; int (*fault)(void); } faults[] = {
                { "leak", leak }, { "use-after-free", use_after_free }, { "heap-overflow", heap_overflow },
                { "stack-overflow", stack_overflow }, { "undefined", undefined },
        };

        for (size_t i = 0; argc == 2 && i < sizeof(faults) / sizeof(*faults); i++)
                if (strcmp(argv[1], faults[i].kind) == 0) {
                        printf("%d\n", faults[i].fault());
                        return 0;
                }
        return 64;
}
