/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   Models: access to the content of a model file. */
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

const int64_t *dyn_ros_private_section(const dyn_ros_model *model, int n) { return content(model, n); }

/* Return 1 if the sections have the sizes that this robot requires. */
static int is_consistent(const int64_t *words)
{
  int64_t nq = words[HEADER_NQ], nv = words[HEADER_NV], nj = words[HEADER_NJOINTS], nf = words[HEADER_NFRAMES];
  int64_t max_count = 1 << 20;
  if (nq < 0 || nv < 0 || nj < 0 || nf < 0 || nq > max_count || nv > max_count || nj > max_count
      || nf > max_count) return 0;
  const int64_t counts[SECTION_COUNT] = {
    [SECTION_INTS] = -1, [SECTION_FLOATS] = ROWS + FLOATS_ROW * (nj + 1) + nv + (FRAME_ROW + INERTIA_ROW) * nf,
    [SECTION_BODIES] = 10 * nj, [SECTION_LINKS] = 10 * nf, [SECTION_ARMATURE] = nv, [SECTION_LIMITS] = 2 * nq + 4 * nv,
    [SECTION_JOINTS] = JOINT * nj, [SECTION_FRAMES] = FRAME * nf, [SECTION_PAYLOADS] = MAX_PAYLOADS * PAYLOAD,
    [SECTION_NAMES] = 1 + nj + nf + nv + nq, [SECTION_TEXT] = -1};
  for (int n = 0; n < SECTION_COUNT; n++) {
    section s = sections(words)[n];
    if (s.start < 0 || s.start % 8 || s.start > words[HEADER_SIZE] || s.count < 0) return 0;
    if (s.count > (words[HEADER_SIZE] - s.start) / (n == SECTION_TEXT ? 1 : 8)) return 0;
    if (counts[n] >= 0 && s.count != counts[n]) return 0;
    if (n == SECTION_INTS && s.count < TREE) return 0;
  }
  return 1;
}

static int is_between(int64_t x, int64_t first, int64_t end) { return first <= x && x < end; }

static int are_between(const int64_t *numbers, int64_t count, int64_t first, int64_t end)
{
  for (int64_t k = 0; k < count; k++)
    if (!is_between(numbers[k], first, end)) return 0;
  return 1;
}

/* Return 1 if a row of the tree has a parent before it, and coordinates of the robot. */
static int is_joint(const dyn_ros_model *model, const int64_t *row, int64_t n)
{
  int64_t kind = row[KIND], nv = row[TREE_NCOLUMNS], nq = kind == FLOATING ? 7 : kind == SPHERICAL ? 4 : nv;
  int64_t expected_nv = kind == FLOATING ? 6 : kind == PLANAR || kind == SPHERICAL ? 3 : 1;
  return is_between(row[TREE_PARENT], 0, n) && is_between(kind, 0, SPHERICAL + 1) && nv == expected_nv
         && is_between(row[TREE_IDX_Q], 0, model->nq - nq + 1) && is_between(row[TREE_IDX_V], 0, model->nv - nv + 1)
         && is_between(row[TREE_IDX_COLUMN], 0, model->ncolumns - nv + 1);
}

/* Return 1 if the integers that kernels read refer to joints, coordinates and frames of the robot. */
static int has_tree(const dyn_ros_model *model)
{
  const int64_t *ints = model->ints, count = sections(model->bytes)[SECTION_INTS].count;
  int64_t nj = model->njoints, nq = model->nq, nv = model->nv, nf = model->nframes;
  int64_t velocities = TREE + TREE_ROW * (nj + 1), units = velocities + 2 * nv;
  if (ints[INTS_NJOINTS] != nj || ints[INTS_NQ] != nq || ints[INTS_NV] != nv
      || ints[INTS_NFRAMES] != nf || !is_between(ints[INTS_NUNIT], 0, nq + 1) || ints[INTS_UNIT_LIST] != units
      || !is_between(ints[INTS_NALLCOLUMNS], 0, 6 * nj + 1)) return 0;
  int64_t frames = units + ints[INTS_NUNIT];
  if (ints[INTS_FRAME_LIST] != frames || count != frames + 4 * nf) return 0;
  for (int64_t n = 1; n <= nj; n++)
    if (!is_joint(model, ints + TREE + TREE_ROW * n, n)) return 0;
  for (int64_t k = 0; k < nv; k++)
    if (!is_between(ints[velocities + k], -1, k) || !is_between(ints[velocities + nv + k], k + 1, nv + 1)) return 0;
  ints += frames;
  return are_between(model->ints + units, model->ints[INTS_NUNIT], 0, nq - 3) && are_between(ints, nf, 0, nj + 1)
         && are_between(ints + nf, nf, 0, nf) && are_between(ints + 2 * nf, nf, -1, nf)
         && are_between(ints + 3 * nf, nf, 0, nj + 1);
}

/* Return 1 if joints, frames, payloads and names refer to what the robot has. */
static int has_rows(const dyn_ros_model *model)
{
  int64_t nj = model->njoints, nf = model->nframes;
  const int64_t *joints = content(model, SECTION_JOINTS), *frames = content(model, SECTION_FRAMES);
  for (int64_t n = 0; n < nj; n++)
    if (!is_between(joints[JOINT * n], -1, n) || !is_between(joints[JOINT * n + 1], 0, nf)) return 0;
  for (int64_t n = 0; n < nf; n++)
    if (!is_between(frames[FRAME * n], -1, nj) || !is_between(frames[FRAME * n + 1], 0, nf)) return 0;
  const double *slots = content(model, SECTION_PAYLOADS);
  for (int n = 0; n < MAX_PAYLOADS; n++) {
    double joint = slots[PAYLOAD * n], frame = slots[PAYLOAD * n + 1];
    int is_empty = joint == 0.0 && frame == 0.0;        /* even if the robot has no joint */
    if (!is_empty && !(joint >= -1 && joint < nj && frame >= 0 && frame < nf)) return 0;
  }
  section names = sections(model->bytes)[SECTION_NAMES], text = sections(model->bytes)[SECTION_TEXT];
  const char *characters = content(model, SECTION_TEXT);
  return text.count > 0 && characters[text.count - 1] == 0
         && are_between(content(model, SECTION_NAMES), names.count, 0, text.count);
}

int dyn_ros_model_init(dyn_ros_model *model, void *bytes, size_t size)
{
  if (!model) return DYN_ROS_NO_MODEL;
  memset(model, 0, sizeof *model);
  if (!bytes || (uintptr_t)bytes % sizeof(int64_t)) return DYN_ROS_NOT_ALIGNED;
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
  model->ncolumns = (int)model->ints[INTS_NALLCOLUMNS];
  const double *limits = content(model, SECTION_LIMITS);
  model->lower = limits;
  model->upper = model->lower + model->nq;
  model->velocity_limit = model->upper + model->nq;
  model->effort_limit = model->velocity_limit + model->nv;
  model->damping = model->effort_limit + model->nv;
  model->friction = model->damping + model->nv;
  model->gravity = model->floats + GRAVITY;
  model->armature = model->floats + ROWS + FLOATS_ROW * (model->njoints + 1);
  if (!has_tree(model) || !has_rows(model)) {
    memset(model, 0, sizeof *model);
    return DYN_ROS_DAMAGED;
  }
  return DYN_ROS_OK;
}

/* --- names */

static const char *name(const dyn_ros_model *model, int64_t n)
{
  const int64_t *starts = content(model, SECTION_NAMES);
  return (const char *)content(model, SECTION_TEXT) + starts[n];
}

static int are_equal(const char *a, const char *b)
{
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

const char *dyn_ros_robot_name(const dyn_ros_model *model) { return is_ready(model) ? name(model, 0) : NULL; }

int dyn_ros_joint_info(const dyn_ros_model *model, int joint, dyn_ros_joint *info)
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!info) return DYN_ROS_MISSING;
  if (joint < 0 || joint >= model->njoints) return DYN_ROS_NO_SUCH_JOINT;
  const int64_t *row = (const int64_t *)content(model, SECTION_JOINTS) + JOINT * joint;
  *info = (dyn_ros_joint){.name = name(model, 1 + joint), .parent = (int)row[0], .frame = (int)row[1],
                          .idx_q = (int)row[2], .idx_v = (int)row[3], .nq = (int)row[4], .nv = (int)row[5]};
  return DYN_ROS_OK;
}

int dyn_ros_frame_info(const dyn_ros_model *model, int frame, dyn_ros_frame *info)
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!info) return DYN_ROS_MISSING;
  if (frame < 0 || frame >= model->nframes) return DYN_ROS_NO_SUCH_FRAME;
  const int64_t *row = (const int64_t *)content(model, SECTION_FRAMES) + FRAME * frame;
  *info = (dyn_ros_frame){name(model, 1 + model->njoints + frame), (int)row[0], (int)row[2]};
  return DYN_ROS_OK;
}

int dyn_ros_joint_index(const dyn_ros_model *model, const char *wanted)
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  for (int i = 0; wanted && i < model->njoints; i++)
    if (are_equal(wanted, name(model, 1 + i))) return i;
  return DYN_ROS_NO_SUCH_JOINT;
}

int dyn_ros_frame_index(const dyn_ros_model *model, const char *wanted)
{
  dyn_ros_frame info;
  int index = DYN_ROS_NO_SUCH_FRAME;
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  for (int i = 0; wanted && i < model->nframes; i++) {
    dyn_ros_frame_info(model, i, &info);
    if (!are_equal(wanted, info.name)) continue;
    if (info.is_link) return i;
    if (index < 0) index = i;
  }
  return index;
}

const char *dyn_ros_velocity_name(const dyn_ros_model *model, int k)
{
  if (!is_ready(model) || k < 0 || k >= model->nv) return NULL;
  return name(model, 1 + model->njoints + model->nframes + k);
}

const char *dyn_ros_position_name(const dyn_ros_model *model, int k)
{
  if (!is_ready(model) || k < 0 || k >= model->nq) return NULL;
  return name(model, 1 + model->njoints + model->nframes + model->nv + k);
}
