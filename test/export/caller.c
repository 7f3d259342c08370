/* Calls exported functions with numbers from a file, and prints the largest relative difference of each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dyn_ros.h"

enum { RESULTS = 24, LARGEST = 1 << 20 };
static double *out[RESULTS];
int counting = 0;                       /* a preloaded library counts allocations meanwhile */

static void quiet(int is_on) { counting = is_on; }

static void require(int code)
{
  if (!code) return;
  fprintf(stderr, "error %d: %s\n", code, dyn_ros_error_text(code));
  exit(1);
}

static void *allocate(size_t size)
{
  void *memory = malloc(size);
  if (!memory) exit(2);
  return memory;
}

static void *content(const char *path, size_t *size)
{
  FILE *file = fopen(path, "rb");
  if (!file) { perror(path); exit(2); }
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void *bytes = allocate(*size);
  if (fread(bytes, 1, *size, file) != *size) exit(2);
  fclose(file);
  return bytes;
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
int read_contacts(const dyn_ros_model *model, dyn_ros_contacts *contacts, const double **p)
{
  dyn_ros_contact list[12];
  const double *s = next(p);
  dyn_ros_contact_settings settings = {s[0], s[1], (int)s[2], s[3]};
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
  return dyn_ros_contacts_init(model, contacts, list, count, &settings);
}

/* Settings, tips and axes. */
int read_constraints(const dyn_ros_model *model, dyn_ros_constraints *constraints, const double **p)
{
  int tips[36], axes[36];
  const double *s = next(p), *t = next(p), *a = next(p);
  int count = (int)s[0];
  for (int n = 0; n < count; n++) tips[n] = (int)t[n], axes[n] = (int)a[n];
  return dyn_ros_constraints_init(model, constraints, tips, axes, count, (int)s[1], s[2], (int)s[3]);
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
static const struct { const char *name; double (*test)(const dyn_ros_model *, const double *, int); } tests[] = {
@ROWS@
};

int main(int argc, char **argv)
{
  size_t size;
  dyn_ros_model model;
  if (argc != 3) return 2;
  void *bytes = content(argv[1], &size);
  require(dyn_ros_model_init(&model, bytes, size));
  double *states = content(argv[2], &size);
  const double *p = states;
  for (int n = 0; n < RESULTS; n++) out[n] = allocate(8 * LARGEST);
  for (size_t k = 0; k < sizeof tests / sizeof *tests; k++) {   /* number of states, length, states */
    int n = (int)p[0];
    size_t length = (size_t)p[1];
    printf("%s %.3e\n", tests[k].name, tests[k].test(&model, p + 2, n));
    p += 2 + length;
  }
  for (int n = 0; n < RESULTS; n++) free(out[n]);
  free(states);
  free(bytes);
  return 0;
}
