/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   The memory of small results of batches, used again when no array refers to it. The C library
   returns memory of this size to the system, which clears it for the next call: that takes longer
   than the call. */
#define NO_IMPORT_ARRAY
#include "extension.h"

#include <stdlib.h>

#define MAX_FREE_BUFFERS 64             /* enough for a few calls */
#define MAX_FREE_SIZE (1 << 25)         /* bytes in free buffers */
#define ALIGNMENT 64                    /* bytes: a cache line */
#define BUFFER_STEP 1024                /* bytes; sizes of buffers are multiples of it */

typedef struct {
    void *memory;
    size_t size;
} Memory;

typedef struct {
    PyObject_HEAD
    Memory memory;
} Buffer;

/* From the oldest to the newest; guarded by the GIL. */
static Memory free_buffers[MAX_FREE_BUFFERS];
static int nfree;
static size_t free_size;

/* Remove a free buffer from the list, and return it. */
static Memory
take_buffer(int n)
{
    const Memory memory = free_buffers[n];
    nfree--;
    free_size -= memory.size;
    memmove(&free_buffers[n], &free_buffers[n + 1], (size_t)(nfree - n) * sizeof memory);
    return memory;
}

static void
buffer_dealloc(PyObject *self)
{
    const Memory memory = ((Buffer *)self)->memory;
    while (nfree == MAX_FREE_BUFFERS || (nfree > 0 && free_size + memory.size > MAX_FREE_SIZE)) {
        free(take_buffer(0).memory);
    }
    free_buffers[nfree++] = memory;
    free_size += memory.size;
    PyObject_Free(self);
}

static PyTypeObject BufferType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.machine_code._native.Buffer",
    .tp_doc = "The memory of a result.",
    .tp_basicsize = sizeof(Buffer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = buffer_dealloc,
};

PyObject *
new_buffer(size_t size)
{
    Memory memory = {NULL, (size + BUFFER_STEP - 1) / BUFFER_STEP * BUFFER_STEP};
    for (int n = nfree - 1; n >= 0 && memory.memory == NULL; n--) {
        if (free_buffers[n].size == memory.size) {
            memory = take_buffer(n);
        }
    }
    if (memory.memory == NULL && (memory.memory = aligned_alloc(ALIGNMENT, memory.size)) == NULL) {
        return PyErr_NoMemory();
    }
    Buffer *buffer = PyObject_New(Buffer, &BufferType);
    if (buffer == NULL) {
        free(memory.memory);
        return NULL;
    }
    buffer->memory = memory;
    return (PyObject *)buffer;
}

void *
buffer_memory(PyObject *buffer)
{
    return ((Buffer *)buffer)->memory.memory;
}

int
add_buffers(PyObject *Py_UNUSED(module))
{
    return PyType_Ready(&BufferType);
}
