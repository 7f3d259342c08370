/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   The call of an algorithm, in one thread, for a batch whose results are small.

   A PreparedBatch describes the arrays of such calls. Whatever is not a plain call with valid arrays
   is left to Python, as in one_state.c. Arrays of one state are repeated for each state. A single
   state in float32 is a batch of one, of which the results have no leading axis. */
#define NO_IMPORT_ARRAY
#include "extension.h"

#include <time.h>

#define MAX_RESULT_SIZE (1 << 20)       /* bytes; Python allocates larger ones */
#define MIN_BUFFER_SIZE (1 << 10)       /* bytes; NumPy allocates smaller ones */
#define MAX_TIME_WITH_GIL 20e-6         /* s; a longer call lets other threads run */
#define MIN_TIME_WITH_THREADS 400e-6    /* s; shorter calls take longer with two threads */
#define TIMED_CALLS 8                   /* calls whose fastest one measures the time of a tile */
#define MAX_AXES 3                      /* of a result of one state */
#define PLACEMENT 16                    /* numbers of a homogeneous matrix */
#define PADDING 128                     /* bytes past a result that kernels may read and write */

/* What the memory of a result must hold before the kernel for one state writes to it. */
typedef enum {UNSET, ZEROS, PLACEMENTS, COPIED} MemoryKind;     /* COPIED: not written in place */

/* Rows of int64 arrays that Python passes. */
typedef struct {
    int64_t is_passed, is_required;     /* an address; is_passed is 1 if the caller passed it */
    int64_t ndim, rows, columns;        /* of one state; columns is 1 of a vector */
} BatchInput;

typedef struct {
    int64_t row, tiles, own_tiles;      /* the row of its array; its tiles, also without padding */
    int64_t order;                      /* of its columns in an array of one's own, or 0 */
    int64_t length;                     /* of a state, with padding [numbers] */
    int64_t single;                     /* its first number in the memory for one state */
    int64_t offset, own_offset;         /* an address, and what it holds for that memory */
    int64_t universe_length;            /* of the row of the universe before it, if any [numbers] */
    int64_t memory_kind;                /* a MemoryKind */
    int64_t memory_length;              /* as length, with the row of the universe */
    int64_t is_transposed, ndim, shape[MAX_AXES];
} BatchOutput;

typedef struct {
    PyObject_HEAD
    PyObject *model, *memory, *make;    /* make: converts a list of results, or is None */
    PyObject *single;                   /* the Prepared for few states */
    Py_ssize_t max_single_states;
    const int64_t *arguments;           /* of run_batch, without FIRST and LAST */
    int type;                           /* of the numbers, for NumPy */
    int64_t number_size;                /* bytes */
    const double *constants;            /* of the model, which are copied to FLOATS in float32 */
    int64_t nconverted;                 /* the number of constants; 0 in float64 */
    const BatchInput *inputs;
    const BatchOutput *outputs;
    const Option *options;
    Py_ssize_t ninputs, noutputs, noptions;
    long long nconstraints, constraints;        /* an address, and what is stored there */
    double tile_time;                   /* s; the shortest one in the first calls */
    double state_time;                  /* s; the same of a state alone */
    int ntimed, ntimed_states;
} PreparedBatch;

/* Return true if an array has the shape of an input of one state, or of a batch. */
static bool
has_input_shape(const BatchInput *input, PyArrayObject *array, bool is_batch)
{
    const npy_intp *shape = PyArray_DIMS(array) + is_batch;
    return PyArray_NDIM(array) == input->ndim + is_batch && shape[0] == input->rows
           && (input->ndim == 1 || shape[1] == input->columns);
}

/* Return the number of states of some inputs; 0 if Python has to handle them. Store the number of
   numbers in inputs that have to be repeated for each state, and if all are of a single state. */
static int64_t
count_states(const PreparedBatch *batch, PyObject *const *objects, int64_t *repeated,
             bool *is_state)
{
    int64_t size = 0;
    *repeated = 0;
    *is_state = false;
    for (Py_ssize_t n = 0; n < batch->ninputs; n++) {
        const BatchInput *input = &batch->inputs[n];
        if (objects[n] == Py_None && !input->is_required) {
            continue;
        }
        if (!PyArray_CheckExact(objects[n])) {
            return 0;
        }
        PyArrayObject *array = (PyArrayObject *)objects[n];
        if (PyArray_TYPE(array) != batch->type || !PyArray_ISBEHAVED_RO(array)) {
            return 0;
        }
        if (has_input_shape(input, array, false)) {
            if (batch->type != NPY_DOUBLE && !PyArray_IS_C_CONTIGUOUS(array)) {
                return 0;
            }
            *repeated += input->rows * input->columns;
            continue;
        }
        if (!has_input_shape(input, array, true) || !PyArray_ISCARRAY_RO(array)
            || (size != 0 && PyArray_DIM(array, 0) != size)) {
            return 0;
        }
        size = PyArray_DIM(array, 0);
        if (size == 0) {
            return 0;
        }
    }
    if (size == 0 && *repeated > 0 && batch->type != NPY_DOUBLE) {
        *is_state = true;
        return 1;
    }
    return size;
}

/* Return an item of `out`, an array, or a tuple or list of arrays for the first results; NULL if it
   has none. */
static PyObject *
own_array(PyObject *out, Py_ssize_t n)
{
    PyObject *item = n == 0 ? out : NULL;
    if (out != NULL && PyTuple_Check(out)) {
        item = n < PyTuple_GET_SIZE(out) ? PyTuple_GET_ITEM(out, n) : NULL;
    }
    else if (out != NULL && PyList_Check(out)) {
        item = n < PyList_GET_SIZE(out) ? PyList_GET_ITEM(out, n) : NULL;
    }
    return item == Py_None ? NULL : item;
}

static bool
overlap(PyArrayObject *one, PyArrayObject *other)
{
    const char *start = PyArray_BYTES(one), *other_start = PyArray_BYTES(other);
    return start < other_start + PyArray_NBYTES(other) && other_start < start + PyArray_NBYTES(one);
}

/* Return true if an array can take a result. */
static bool
can_take(const BatchOutput *output, int type, PyObject *object, int64_t size)
{
    if (!PyArray_CheckExact(object)) {
        return false;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    const int ndim = (int)output->ndim, swapped = output->is_transposed ? ndim - 2 : ndim;
    if (PyArray_TYPE(array) != type || !PyArray_ISCARRAY(array)
        || PyArray_NDIM(array) != ndim + 1 || PyArray_DIM(array, 0) != size) {
        return false;
    }
    for (int k = 0; k < ndim; k++) {
        const int axis = k < swapped ? k : k == swapped ? k + 1 : k - 1;
        if (PyArray_DIM(array, k + 1) != output->shape[axis]) {
            return false;
        }
    }
    return true;
}

/* Return true if the arrays in `out` can take results, and share no memory with other arrays. */
static bool
can_take_results(const PreparedBatch *batch, PyObject *out, int64_t size, PyObject *const *objects)
{
    const Py_ssize_t count = out == NULL            ? 0
                             : PyTuple_Check(out)   ? PyTuple_GET_SIZE(out)
                             : PyList_Check(out)    ? PyList_GET_SIZE(out)
                                                    : 1;
    if (count > batch->noutputs) {
        return false;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *array = own_array(out, n);
        if (array == NULL) {
            continue;
        }
        if (!can_take(&batch->outputs[n], batch->type, array, size)) {
            return false;
        }
        for (Py_ssize_t k = 0; k < batch->ninputs; k++) {
            if (objects[k] != Py_None
                && (!PyArray_IS_C_CONTIGUOUS((PyArrayObject *)objects[k])
                    || overlap((PyArrayObject *)array, (PyArrayObject *)objects[k]))) {
                return false;
            }
        }
        for (Py_ssize_t k = 0; k < n; k++) {
            PyObject *other = own_array(out, k);
            if (other != NULL && overlap((PyArrayObject *)array, (PyArrayObject *)other)) {
                return false;
            }
        }
    }
    return true;
}

static bool
fits(const PreparedBatch *batch, int64_t size, int64_t repeated)
{
    int64_t largest = repeated;
    for (Py_ssize_t n = 0; n < batch->noutputs; n++) {
        const int64_t length = batch->outputs[n].length;
        largest = length > largest ? length : largest;
    }
    return size < MAX_RESULT_SIZE && batch->number_size * size * largest < MAX_RESULT_SIZE;
}

/* Set the rows of the inputs; `scratch` is for those that are repeated. */
static void
pass_inputs(const PreparedBatch *batch, PyObject *const *objects, int64_t size, char *scratch)
{
    int64_t *row = AT(int64_t, batch->arguments[INPUTS]);
    for (Py_ssize_t n = 0; n < batch->ninputs; n++, row += ARRAY) {
        const BatchInput *input = &batch->inputs[n];
        const int64_t count = input->rows * input->columns;
        const bool is_passed = objects[n] != Py_None;
        *AT(int64_t, input->is_passed) = is_passed;
        row[COLUMNS] = is_passed ? count : 0;
        if (!is_passed) {
            continue;
        }
        PyArrayObject *array = (PyArrayObject *)objects[n];
        row[ADDRESS] = (int64_t)(intptr_t)PyArray_DATA(array);
        if (PyArray_NDIM(array) == input->ndim) {
            const size_t bytes = (size_t)(count * batch->number_size);
            row[ADDRESS] = (int64_t)(intptr_t)scratch;
            if (batch->type == NPY_DOUBLE) {
                copy_numbers((double *)scratch, array);
            }
            else {
                memcpy(scratch, PyArray_DATA(array), bytes);
            }
            for (int64_t state = 1; state < size; state++) {
                memcpy(scratch + (size_t)state * bytes, scratch, bytes);
            }
            scratch += (size_t)size * bytes;
        }
    }
}

/* Return true if the kernel for one state can write to the rows of a new result. Small results are
   copied, since an array without padding takes less time to create. */
static bool
can_be_in_place(const PreparedBatch *batch, const BatchOutput *output, int64_t size)
{
    return output->memory_kind != COPIED
           && batch->number_size * size * output->length >= MIN_BUFFER_SIZE;
}

/* Return a new array of a result, a view of padded rows if necessary, and set its row. */
static PyObject *
new_result(const PreparedBatch *batch, const BatchOutput *output, int64_t size, bool is_state,
           bool is_in_place, int64_t *row)
{
    const int ndim = (int)output->ndim + 1;
    const npy_intp number_size = (npy_intp)batch->number_size;
    const int64_t row_length = is_in_place ? output->memory_length : output->length;
    const int64_t start = is_in_place ? output->universe_length : 0;
    npy_intp shape[MAX_AXES + 1] = {size}, strides[MAX_AXES + 1] = {number_size * row_length};
    npy_intp count = 1;
    for (int k = ndim - 1; k > 0; k--) {
        shape[k] = output->shape[k - 1];
        strides[k] = number_size * count;
        count *= shape[k];
    }
    const size_t bytes = (size_t)(size * row_length * number_size);
    const bool is_plain = count == row_length && !output->is_transposed;
    const bool is_array = bytes < MIN_BUFFER_SIZE;
    const npy_intp length = size * row_length;
    PyObject *base = !is_array  ? new_buffer(bytes + PADDING)
                     : is_plain ? PyArray_SimpleNew(ndim - is_state, shape + is_state, batch->type)
                                : PyArray_SimpleNew(1, &length, batch->type);
    if (base == NULL) {
        return NULL;
    }
    char *data = is_array ? PyArray_DATA((PyArrayObject *)base) : buffer_memory(base);
    data += start * number_size;
    row[ADDRESS] = (int64_t)(intptr_t)data;
    row[COLUMNS] = row_length;
    row[TILES] = output->tiles;
    row[ORDER] = 0;
    row[IN_PLACE] = is_in_place;
    if (is_plain && is_array) {
        return base;
    }
    if (output->is_transposed) {
        const npy_intp last = shape[ndim - 1], stride = strides[ndim - 1];
        shape[ndim - 1] = shape[ndim - 2], shape[ndim - 2] = last;
        strides[ndim - 1] = strides[ndim - 2], strides[ndim - 2] = stride;
    }
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(batch->type),
                                          ndim - is_state, shape + is_state, strides + is_state,
                                          data, NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED, NULL);
    if (view == NULL) {
        Py_DECREF(base);
        return NULL;
    }
    if (PyArray_SetBaseObject((PyArrayObject *)view, base) < 0) {       /* steals base */
        Py_DECREF(view);
        return NULL;
    }
    return view;
}

/* Return an array of the caller for a result, and set its row. */
static PyObject *
take_result(const BatchOutput *output, PyObject *array, int64_t *row)
{
    row[ADDRESS] = (int64_t)(intptr_t)PyArray_DATA((PyArrayObject *)array);
    row[COLUMNS] = 1;
    for (int k = 0; k < output->ndim; k++) {
        row[COLUMNS] *= output->shape[k];
    }
    row[TILES] = output->own_tiles;
    row[ORDER] = output->order;
    row[IN_PLACE] = false;
    return Py_NewRef(array);
}

/* Return a list of results, new unless they are in `out`. `is_single`: for run_single_states. */
static PyObject *
new_results(const PreparedBatch *batch, PyObject *out, int64_t size, bool is_state, bool is_single)
{
    PyObject *results = PyList_New(batch->noutputs);
    int64_t *rows = AT(int64_t, batch->arguments[OUTPUTS]);
    for (int64_t n = 0; n < batch->arguments[NOUTPUTS]; n++) {
        rows[ARRAY * n + COLUMNS] = 0;                  /* unless it is returned */
    }
    for (Py_ssize_t n = 0; results != NULL && n < batch->noutputs; n++) {
        const BatchOutput *output = &batch->outputs[n];
        PyObject *own = own_array(out, n);
        int64_t *row = rows + ARRAY * output->row;
        PyObject *array =
            own == NULL ? new_result(batch, output, size, is_state,
                                     is_single && can_be_in_place(batch, output, size), row)
                        : take_result(output, own, row);
        if (array == NULL) {
            Py_CLEAR(results);
        }
        else {
            PyList_SET_ITEM(results, n, array);
        }
    }
    return results;
}

static double
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Copy a result of one state to its row. */
static void
copy_result(const BatchOutput *output, double *target, bool is_reordered)
{
    const double *source = AT(const double, output->single);
    int64_t count = 1;
    for (int k = 0; k < output->ndim; k++) {
        count *= output->shape[k];
    }
    if (!is_reordered) {
        memcpy(target, source, (size_t)count * sizeof(double));
        return;
    }
    const int64_t rows = output->shape[output->ndim - 2], columns = output->shape[output->ndim - 1];
    for (int64_t start = 0; start < count; start += rows * columns) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t k = 0; k < columns; k++) {
                target[start + k * rows + i] = source[start + i * columns + k];
            }
        }
    }
}

/* Let the kernel write to the row of a state. The constant entries of its memory are set here. */
static void
write_in_place(const BatchOutput *output, double *target)
{
    double *memory = target - output->universe_length;
    const double *own_memory = AT(const double, output->single) - output->universe_length;
    static const double last_row[] = {0.0, 0.0, 0.0, 1.0};
    if (output->memory_kind == ZEROS) {
        memset(memory, 0, (size_t)output->memory_length * sizeof(double));
    }
    if (output->memory_kind == PLACEMENTS) {
        memcpy(memory, own_memory, (size_t)output->universe_length * sizeof(double));
        for (int64_t end = PLACEMENT; end <= output->memory_length; end += PLACEMENT) {
            memcpy(memory + end - 4, last_row, sizeof last_row);
        }
    }
    *AT(int64_t, output->offset) = output->own_offset + (memory - own_memory);
}

/* Run on one state after the other, which is faster for few states. */
static int64_t
run_single_states(PreparedBatch *batch, DataBase *data, int64_t selector, PyObject *const *objects,
                  int64_t size)
{
    const int64_t *rows = AT(int64_t, batch->arguments[OUTPUTS]);
    const bool is_timed = batch->ntimed_states < TIMED_CALLS;
    const bool is_long = batch->ntimed_states == 0
                         || (double)size * batch->state_time > MAX_TIME_WITH_GIL;
    const long long owner = data->owner;
    PyThreadState *thread = NULL;
    int64_t status = 0;
    if (is_long) {
        data->owner = -owner;
        thread = PyEval_SaveThread();
    }
    const double start = is_timed ? now() : 0.0;
    for (int64_t state = 0; state < size && status == 0; state++) {
        for (Py_ssize_t n = 0; n < batch->noutputs; n++) {
            const BatchOutput *output = &batch->outputs[n];
            const int64_t *row = rows + ARRAY * output->row;
            if (row[IN_PLACE]) {
                write_in_place(output, AT(double, row[ADDRESS]) + state * row[COLUMNS]);
            }
        }
        status = run_state(batch->single, selector, batch->constraints, objects, state);
        for (Py_ssize_t n = 0; n < batch->noutputs; n++) {
            const BatchOutput *output = &batch->outputs[n];
            const int64_t *row = rows + ARRAY * output->row;
            if (!row[IN_PLACE]) {
                copy_result(output, AT(double, row[ADDRESS]) + state * row[COLUMNS],
                            row[ORDER] != 0);
            }
        }
    }
    for (Py_ssize_t n = 0; n < batch->noutputs; n++) {
        *AT(int64_t, batch->outputs[n].offset) = batch->outputs[n].own_offset;
    }
    const double time = is_timed ? (now() - start) / (double)size : 0.0;
    if (is_long) {
        PyEval_RestoreThread(thread);
        data->owner = owner;
    }
    if (is_timed && status == 0) {
        batch->state_time = batch->ntimed_states == 0 || time < batch->state_time
                                ? time : batch->state_time;
        batch->ntimed_states++;
    }
    return status;
}

/* Convert the constants of the model, which may have changed since the last call. */
static void
convert_constants(const PreparedBatch *batch)
{
    float *target = AT(float, batch->arguments[FLOATS]);
    for (int64_t n = 0; n < batch->nconverted; n++) {
        target[n] = (float)batch->constants[n];
    }
}

/* Run on all states; measure the time of the first calls. */
static int64_t
run_states(PreparedBatch *batch, DataBase *data, int64_t size)
{
    int64_t arguments[NARGUMENTS], status;
    memcpy(arguments, batch->arguments, sizeof arguments);
    convert_constants(batch);
    arguments[FIRST] = 0;
    arguments[LAST] = size;
    const double ntiles = (double)((size + arguments[LANES] - 1) / arguments[LANES]);
    const bool is_timed = batch->ntimed < TIMED_CALLS;
    const bool is_long = batch->ntimed == 0 || ntiles * batch->tile_time > MAX_TIME_WITH_GIL;
    const long long owner = data->owner;
    PyThreadState *thread = NULL;
    if (is_long) {
        data->owner = -owner;
        thread = PyEval_SaveThread();
    }
    const double start = is_timed ? now() : 0.0;
    status = run_batch(arguments);
    const double time = is_timed ? (now() - start) / ntiles : 0.0;
    if (is_long) {
        PyEval_RestoreThread(thread);
        data->owner = owner;
    }
    if (is_timed && status != REJECTED) {
        batch->tile_time = batch->ntimed == 0 || time < batch->tile_time ? time : batch->tile_time;
        batch->ntimed++;
    }
    return status;
}

/* Replace arrays of single numbers in a list of results of one state; return -1 if that fails. */
static int
convert_numbers(const PreparedBatch *batch, PyObject *results)
{
    for (Py_ssize_t n = 0; n < batch->noutputs; n++) {
        if (batch->outputs[n].ndim == 0) {
            PyArrayObject *array = (PyArrayObject *)PyList_GET_ITEM(results, n);
            PyObject *number = PyFloat_FromDouble(*(const float *)PyArray_DATA(array));
            if (number == NULL || PyList_SetItem(results, n, number) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* Return what the caller returns for a list of results, which is consumed. */
static PyObject *
finish(const PreparedBatch *batch, PyObject *results, bool is_state)
{
    PyObject *finished;
    if (is_state && convert_numbers(batch, results) < 0) {
        Py_DECREF(results);
        return NULL;
    }
    if (batch->make != Py_None) {
        finished = PyObject_CallFunctionObjArgs(batch->make, results, NULL);
    }
    else if (batch->noutputs == 1) {
        finished = Py_NewRef(PyList_GET_ITEM(results, 0));
    }
    else {
        finished = PyList_AsTuple(results);
    }
    Py_DECREF(results);
    return finished;
}

/* Return true if several threads would take less time. Calls are short until they are timed. */
static bool
gains_by_threads(const PreparedBatch *batch, int64_t size)
{
    const double ntiles = (double)size / (double)batch->arguments[LANES];
    const double time = size <= batch->max_single_states ? (double)size * batch->state_time
                                                         : ntiles * batch->tile_time;
    return time > MIN_TIME_WITH_THREADS;
}

PyObject *
run_small_batch(PyObject *prepared, DataBase *data, PyObject *model, PyObject *out,
                bool has_threads, int64_t selector, PyObject *const *objects, Py_ssize_t count)
{
    PreparedBatch *batch = (PreparedBatch *)prepared;
    int64_t repeated;
    if (model != batch->model || count != batch->ninputs) {
        return NULL;
    }
    bool is_state;
    const int64_t size = count_states(batch, objects, &repeated, &is_state);
    if (size == 0 || !fits(batch, size, repeated) || (is_state && out != NULL)
        || (has_threads && gains_by_threads(batch, size))
        || (out != NULL && !can_take_results(batch, out, size, objects))) {
        return NULL;
    }
    char *scratch = NULL;
    if (repeated > 0
        && (scratch = PyMem_Malloc((size_t)(size * repeated * batch->number_size))) == NULL) {
        return PyErr_NoMemory();
    }
    const bool is_single = size <= batch->max_single_states;
    PyObject *results = new_results(batch, out, size, is_state, is_single);
    int64_t status = REJECTED;
    if (results != NULL && is_single) {
        status = run_single_states(batch, data, selector, objects, size);
    }
    else if (results != NULL) {
        pass_inputs(batch, objects, size, scratch);
        set_options(batch->options, batch->noptions, selector);
        *AT(int64_t, batch->nconstraints) = batch->constraints;
        status = run_states(batch, data, size);
    }
    PyMem_Free(scratch);
    if (status != 0) {                                  /* Python reports why */
        Py_XDECREF(results);
        return NULL;
    }
    return finish(batch, results, is_state);
}

static PyObject *
batch_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"model", "memory", "make", "single", "max_single_states", "arguments",
                            "nconstraints", "constraints", "inputs", "outputs", "options",
                            "converted", NULL};
    PyObject *model, *memory, *make, *single, *run_arguments, *inputs, *outputs, *options;
    PyArrayObject *converted;
    Py_ssize_t max_single_states;
    long long nconstraints, constraints;
    Py_ssize_t one;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOOnOLLOOOO!:PreparedBatch", names,
                                     &model, &memory, &make, &single, &max_single_states,
                                     &run_arguments, &nconstraints, &constraints, &inputs, &outputs,
                                     &options, &PyArray_Type, &converted)) {
        return NULL;
    }
    PreparedBatch *batch = (PreparedBatch *)type->tp_alloc(type, 0);
    if (batch == NULL) {
        return NULL;
    }
    batch->model = Py_NewRef(model);
    batch->make = Py_NewRef(make);
    batch->single = Py_NewRef(single);
    batch->max_single_states = max_single_states;
    batch->nconstraints = nconstraints;
    batch->constraints = constraints;
    batch->memory = PyTuple_Pack(6, memory, run_arguments, inputs, outputs, options, converted);
    batch->constants = PyArray_DATA(converted);
    batch->nconverted = PyArray_SIZE(converted);
    const size_t width = NARGUMENTS * sizeof(int64_t);
    if (batch->memory == NULL || (batch->arguments = rows_of(run_arguments, width, &one)) == NULL
        || (batch->inputs = rows_of(inputs, sizeof(BatchInput), &batch->ninputs)) == NULL
        || (batch->outputs = rows_of(outputs, sizeof(BatchOutput), &batch->noutputs)) == NULL
        || (batch->options = rows_of(options, sizeof(Option), &batch->noptions)) == NULL) {
        Py_CLEAR(batch);
        return NULL;
    }
    batch->number_size = batch->arguments[NUMBER_SIZE];
    batch->type = batch->number_size == sizeof(double) ? NPY_DOUBLE : NPY_FLOAT;
    return (PyObject *)batch;
}

static int
batch_traverse(PyObject *self, visitproc visit, void *arg)
{
    PreparedBatch *batch = (PreparedBatch *)self;
    Py_VISIT(batch->model);
    Py_VISIT(batch->memory);
    Py_VISIT(batch->make);
    Py_VISIT(batch->single);
    return 0;
}

static void
batch_dealloc(PyObject *self)
{
    PreparedBatch *batch = (PreparedBatch *)self;
    PyObject_GC_UnTrack(self);
    Py_XDECREF(batch->model);
    Py_XDECREF(batch->memory);
    Py_XDECREF(batch->make);
    Py_XDECREF(batch->single);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef batch_members[] = {
    {"constraints", T_LONGLONG, offsetof(PreparedBatch, constraints), READONLY,
     "The number of constraints for which it is prepared."},
    {"tile_time", T_DOUBLE, offsetof(PreparedBatch, tile_time), READONLY,
     "The shortest time of a tile of states in the first calls [s]; 0 before."},
    {NULL},
};

/* Immutable for Python, as a Prepared. */
PyTypeObject PreparedBatchType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.machine_code._native.PreparedBatch",
    .tp_doc = "The memory and the machine code of an algorithm's call for a small batch of a Data.",
    .tp_basicsize = sizeof(PreparedBatch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = batch_new,
    .tp_members = batch_members,
    .tp_traverse = batch_traverse,
    .tp_dealloc = batch_dealloc,
};

int
add_small_batches(PyObject *module)
{
    return PyModule_AddType(module, &PreparedBatchType);
}
