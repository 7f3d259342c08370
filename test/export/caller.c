/* Calls exported functions with numbers from a file, and prints the largest relative difference of each.
   All memory is there before the first call. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dyn_ros.h"

enum { RESULTS = 24, LARGEST = 1 << 18, MOST_THREADS = 4 };
static _Thread_local double *out[RESULTS];
static char memory[1 << 28];
static size_t used;                     /* of the memory */
static dyn_ros_model model;
static double *states;

static void require(int code)
{
  if (!code) return;
  fprintf(stderr, "error %d: %s\n", code, dyn_ros_error_text(code));
  exit(1);
}

static void *allocate(size_t size)
{
  size_t start = __atomic_fetch_add(&used, (size + 63) / 64 * 64, __ATOMIC_RELAXED);
  if (start + size > sizeof memory) require(1);
  return memory + start;
}

static const double *next(const double **p)
{
  double length = *(*p)++;
  const double *start = *p;
  if (length < 0.0) return NULL;
  *p += (size_t)length;
  return start;
}

/* Settings, and for each contact its integers, placements and gains. */
int read_contacts(dyn_ros_contacts *contacts, const double **p)
{
  dyn_ros_contact list[12];
  const double *s = next(p);
  dyn_ros_contact_settings settings = {.damping = s[0], .residual = s[1], .max_iterations = (int)s[2],
                                       .restitution = s[3]};
  int count = (int)s[4];
  for (int n = 0; n < count; n++) {
    const double *x = next(p);
    list[n] = dyn_ros_contact_at((int)x[0], (int)x[1], (int)x[2]);
    list[n].other = (int)x[3];
    list[n].kp = x[4];
    list[n].kd = x[5];
    memcpy(list[n].placement, x + 6, sizeof list[n].placement);
    memcpy(list[n].other_placement, x + 22, sizeof list[n].other_placement);
  }
  return dyn_ros_contacts_init(&model, contacts, list, count, &settings);
}

/* Settings, tips and axes. */
int read_constraints(dyn_ros_constraints *constraints, const double **p)
{
  int tips[36], axes[36];
  const double *s = next(p), *t = next(p), *a = next(p);
  int count = (int)s[0];
  for (int n = 0; n < count; n++) tips[n] = (int)t[n], axes[n] = (int)a[n];
  return dyn_ros_constraints_init(&model, constraints, tips, axes, count, (int)s[1], s[2], (int)s[3]);
}

static double compare(const double **p, int count, double worst)
{
  for (int n = 0; n < count; n++) {
    size_t length = (size_t)(*p)[0];
    const double *wanted = next(p);
    double scale = 1e-300, difference = 0.0;
    for (size_t k = 0; k < length; k++) {
      double d = fabs(out[n][k] - wanted[k]);
      if (!(d <= difference)) difference = d;
      if (fabs(wanted[k]) > scale) scale = fabs(wanted[k]);
    }
    if (!(difference / scale <= worst)) worst = difference / scale;
    memset(out[n], 0x55, 8 * length);
  }
  return worst;
}

@CALLS@
static const struct { const char *name; double (*test)(const double *, int); } tests[] = {
@ROWS@
};
enum { TESTS = sizeof tests / sizeof *tests };

static void *run(void *differences)
{
  const double *p = states;
  for (int n = 0; n < RESULTS; n++) out[n] = allocate(8 * LARGEST);
  for (int k = 0; k < TESTS; k++) {     /* number of states, length, states */
    if (tests[k].test) ((double *)differences)[k] = tests[k].test(p + 2, (int)p[0]);
    p += 2 + (size_t)p[1];
  }
  return NULL;
}

/* MODEL STATES MODE: alone, strict (any system call but write ends the program), or threads. */
int main(int argc, char **argv)
{
  static double differences[MOST_THREADS][TESTS];
  size_t size;
  int threads = 0;
  if (argc != 4) return 2;
  void *bytes = dyn_ros_read_file(argv[1], &size);
  require(dyn_ros_model_init(&model, bytes, size));
  states = dyn_ros_read_file(argv[2], &size);
  setvbuf(stdout, NULL, _IONBF, 0);
  int is_strict = !strcmp(argv[3], "strict");
  if (!strcmp(argv[3], "threads")) {
    pthread_t started[MOST_THREADS];
    for (; threads < MOST_THREADS; threads++) pthread_create(&started[threads], NULL, run, differences[threads]);
    for (int n = 0; n < threads; n++) pthread_join(started[n], NULL);
  } else {
    if (is_strict && prctl(PR_SET_SECCOMP, 1)) return 3;
    run(differences[threads++]);
  }
  for (int n = 0; n < threads; n++)
    for (int k = 0; k < TESTS; k++)
      if (tests[k].test) printf("%s %.3e\n", tests[k].name, differences[n][k]);
  if (is_strict) syscall(SYS_exit, 0);
  free(states);
  free(bytes);
  return 0;
}
