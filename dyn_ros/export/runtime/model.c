/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   Models: the content of a model file, and what can be set. */
#include <string.h>

#include "runtime.h"

typedef struct { int64_t start, count; } section;

static uint64_t checksum(const int64_t *words, int64_t count)
{
  uint64_t value = 0xcbf29ce484222325u;         /* FNV-1a */
  for (int64_t k = 0; k < count; k++) {
    uint64_t word = k == HEADER_CHECKSUM ? 0 : (uint64_t)words[k];
    value = (value ^ word) * 0x100000001b3u;
  }
  return value;
}

static const section *sections(const int64_t *words) { return (const section *)(words + HEADER_COUNT); }

static void *content(const dyn_ros_model *model, int n)
{
  return (char *)model->bytes + sections(model->bytes)[n].start;
}

/* Whether the sections have the sizes that follow from those of the robot. */
static int is_consistent(const int64_t *words)
{
  int64_t nq = words[HEADER_NQ], nv = words[HEADER_NV], nj = words[HEADER_NJOINTS], nf = words[HEADER_NFRAMES];
  int64_t most = 1 << 20;
  if (nq < 0 || nv < 0 || nj < 0 || nf < 0 || nq > most || nv > most || nj > most || nf > most) return 0;
  const int64_t counts[SECTION_COUNT] = {
    [SECTION_INTS] = -1, [SECTION_FLOATS] = ROWS + FLOATS_ROW * (nj + 1) + nv + (FRAME_ROW + INERTIA_ROW) * nf,
    [SECTION_BODIES] = 10 * nj, [SECTION_LINKS] = 10 * nf, [SECTION_ARMATURE] = nv, [SECTION_LIMITS] = 2 * nq + 4 * nv,
    [SECTION_JOINTS] = 5 * nj, [SECTION_FRAMES] = 3 * nf, [SECTION_PAYLOADS] = MAX_PAYLOADS * PAYLOAD,
    [SECTION_NAMES] = 1 + nj + nf + nv + nq, [SECTION_TEXT] = -1};
  for (int n = 0; n < SECTION_COUNT; n++) {
    section s = sections(words)[n];
    if (s.start < 0 || s.start % 8 || s.count < 0 || s.count > words[HEADER_SIZE]) return 0;
    if (s.start + (n == SECTION_TEXT ? 1 : 8) * s.count > words[HEADER_SIZE]) return 0;
    if (counts[n] >= 0 && s.count != counts[n]) return 0;
  }
  return 1;
}

int dyn_ros_model_init(dyn_ros_model *model, void *bytes, size_t size)
{
  if (!model) return DYN_ROS_NO_MODEL;
  memset(model, 0, sizeof *model);
  if (!bytes || (uintptr_t)bytes % 8) return DYN_ROS_NOT_ALIGNED;
  const int64_t *words = bytes;
  if (size < 8 * (HEADER_COUNT + 2 * SECTION_COUNT)) return DYN_ROS_TRUNCATED;
  if (words[HEADER_MAGIC] != MAGIC) return DYN_ROS_NOT_A_MODEL;
  if (words[HEADER_LAYOUT] != LAYOUT) return DYN_ROS_OTHER_VERSION;
  if (words[HEADER_SIZE] < 0 || (uint64_t)words[HEADER_SIZE] > size) return DYN_ROS_TRUNCATED;
  if (words[HEADER_SIZE] % 8 || (uint64_t)words[HEADER_CHECKSUM] != checksum(words, words[HEADER_SIZE] / 8)
      || !is_consistent(words)) return DYN_ROS_DAMAGED;
  model->bytes = bytes;
  model->ints = content(model, SECTION_INTS);
  model->floats = content(model, SECTION_FLOATS);
  model->nq = (int)words[HEADER_NQ];
  model->nv = (int)words[HEADER_NV];
  model->njoints = (int)words[HEADER_NJOINTS];
  model->nframes = (int)words[HEADER_NFRAMES];
  return DYN_ROS_OK;
}
