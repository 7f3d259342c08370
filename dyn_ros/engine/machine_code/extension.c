/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   The extension calls machine code by its address, and opens libraries that contain it. The calls
   of algorithms are in one_state.c and batches.c. extension.py builds it. */
#include "extension.h"

#include <dlfcn.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* --- arguments */

int
as_integer(PyObject *object, int64_t *value)
{
    PyObject *index = PyNumber_Index(object);
    if (index == NULL) {
        return -1;
    }
    *value = PyLong_AsLongLong(index);
    Py_DECREF(index);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

int
as_address(PyObject *object, int64_t *value)
{
    if (object == Py_None) {
        *value = 0;
        return 0;
    }
    if (PyBytes_Check(object)) {
        *value = (int64_t)(intptr_t)PyBytes_AS_STRING(object);
        return 0;
    }
    if (!PyArray_Check(object) || !PyArray_ISCARRAY_RO((PyArrayObject *)object)) {
        PyErr_Format(PyExc_TypeError, "expected a contiguous NumPy array, bytes or None, got %.80s",
                     Py_TYPE(object)->tp_name);
        return -1;
    }
    *value = (int64_t)(intptr_t)PyArray_DATA((PyArrayObject *)object);
    return 0;
}

static int
as_slot(char letter, PyObject *object, int64_t *slot)
{
    if (letter == 'q') {
        return as_integer(object, slot);
    }
    if (letter == 'p') {
        return as_address(object, slot);
    }
    double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) {
        return -1;
    }
    memcpy(slot, &value, sizeof value);
    return 0;
}

int
has_keywords(const char *name, PyObject *names)
{
    if (names == NULL || PyTuple_GET_SIZE(names) == 0) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments, got %R", name,
                 PyTuple_GET_ITEM(names, 0));
    return -1;
}

/* --- Function: machine code at an address */

#define MAX_ARGUMENTS 64

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *owner;                    /* owner of the machine code, or NULL */
    intptr_t code;
    Py_ssize_t count;
    char letters[MAX_ARGUMENTS + 1];
} Function;

static PyObject *
function_call(PyObject *self, PyObject *const *arguments, size_t nargsf, PyObject *names)
{
    Function *function = (Function *)self;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    int64_t slots[MAX_ARGUMENTS], result;
    if (has_keywords("the function", names) < 0) {
        return NULL;
    }
    if (count != function->count) {
        return PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", function->count,
                            count);
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        if (as_slot(function->letters[n], arguments[n], &slots[n]) < 0) {
            return NULL;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    if (strcmp(function->letters, "qqqq") == 0) {
        result = ((kernel_code)function->code)(
            AT(const int64_t, slots[0]), AT(int64_t, slots[1]), AT(const double, slots[2]),
            AT(double, slots[3]));
    }
    else {
        result = ((packed_code)function->code)(slots);
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(result);
}

static PyObject *
function_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"address", "signature", "owner", NULL};
    long long address;
    const char *signature;
    PyObject *owner = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Ls|O:Function", names, &address,
                                     &signature, &owner)) {
        return NULL;
    }
    size_t count = strlen(signature);
    if (address == 0 || count > MAX_ARGUMENTS || strspn(signature, "qdp") != count) {
        return PyErr_Format(PyExc_ValueError, "expected an address and a signature of at most %d "
                            "letters q, d and p, got %lld and '%.80s'", MAX_ARGUMENTS, address,
                            signature);
    }
    Function *function = (Function *)type->tp_alloc(type, 0);
    if (function != NULL) {
        function->vectorcall = function_call;
        function->owner = Py_XNewRef(owner);
        function->code = (intptr_t)address;
        function->count = (Py_ssize_t)count;
        memcpy(function->letters, signature, count + 1);
    }
    return (PyObject *)function;
}

static int
function_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Function *)self)->owner);
    return 0;
}

static int
function_clear(PyObject *self)
{
    Py_CLEAR(((Function *)self)->owner);
    return 0;
}

static void
function_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    function_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject FunctionType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.machine_code._native.Function",
    .tp_doc = "Function(address, signature, owner=None): machine code, called without the GIL.\n\n"
              "Letters of the signature: q an integer or address, d a float, p a contiguous array\n"
              "or None. Kernels have the signature qqqq and take four arguments; other code takes\n"
              "the address of an array of its arguments.",
    .tp_basicsize = sizeof(Function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = function_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Function, vectorcall),
    .tp_traverse = function_traverse,
    .tp_clear = function_clear,
    .tp_dealloc = function_dealloc,
};

PyObject *
new_function(packed_code code, const char *signature)
{
    return PyObject_CallFunction((PyObject *)&FunctionType, "Ls", (long long)(intptr_t)code,
                                 signature);
}

/* --- libraries of machine code */

typedef struct {
    PyObject_HEAD
    void *handle;                       /* never closed: functions in it have no other owner */
} Library;

static PyTypeObject LibraryType;

static PyObject *
open_library(PyObject *Py_UNUSED(module), PyObject *path)
{
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    void *handle = dlopen(PyBytes_AS_STRING(bytes), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(bytes);
    if (handle == NULL) {
        PyErr_SetString(PyExc_OSError, dlerror());
        return NULL;
    }
    Library *library = PyObject_New(Library, &LibraryType);
    if (library != NULL) {
        library->handle = handle;
    }
    return (PyObject *)library;
}

static PyObject *
library_address(PyObject *self, PyObject *symbol)
{
    const char *name = PyUnicode_AsUTF8(symbol);
    if (name == NULL) {
        return NULL;
    }
    return PyLong_FromVoidPtr(dlsym(((Library *)self)->handle, name));
}

static PyMethodDef library_methods[] = {
    {"address", library_address, METH_O, "The address of a symbol; 0 if it is absent."},
    {NULL},
};

static PyTypeObject LibraryType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.machine_code._native.Library",
    .tp_doc = "A shared library that is kept open.",
    .tp_basicsize = sizeof(Library),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = library_methods,
};

#if defined(__x86_64__)
/* Not all compilers know the names of levels, and of F16C, MOVBE and LZCNT. */
static const char *
best_level(void)
{
    unsigned a, b, basic, extended, d;
    __builtin_cpu_init();
    if (!__get_cpuid(1, &a, &b, &basic, &d) || !__get_cpuid(0x80000001, &a, &b, &extended, &d)
        || !__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) {
        return "";
    }
    const unsigned f16c = 1u << 29, movbe = 1u << 22, lzcnt = 1u << 5;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")
        || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2")
        || !(basic & f16c) || !(basic & movbe) || !(extended & lzcnt)) {
        return "x86-64-v2";
    }
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")
        || !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq")
        || !__builtin_cpu_supports("avx512vl")) {
        return "x86-64-v3";
    }
    return "x86-64-v4";
}
#elif defined(__aarch64__)
static const char *
best_level(void)
{
    return "aarch64";
}
#else
static const char *
best_level(void)
{
    return "";
}
#endif

static PyObject *
level(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    return PyUnicode_FromString(best_level());
}

static PyObject *
address(PyObject *Py_UNUSED(module), PyObject *array)
{
    int64_t value;
    return as_address(array, &value) < 0 ? NULL : PyLong_FromLongLong(value);
}

/* --- the module */

static PyMethodDef methods[] = {
    {"address", address, METH_O, "The address of the data of a contiguous array; 0 for None."},
    {"level", level, METH_NOARGS,
     "The best of x86-64-v4, -v3, -v2 and aarch64 that the processor supports; '' if none."},
    {"open_library", open_library, METH_O, "Open a shared library, for good; OSError."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dyn_ros.engine.machine_code._native",
    .m_doc = "Calls from Python to machine code.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    import_array();
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    if (PyModule_AddType(module, &FunctionType) < 0
        || PyModule_AddType(module, &LibraryType) < 0
        || PyModule_AddStringConstant(module, "DIGEST", DIGEST) < 0
        || add_calls(module) < 0 || add_batches(module) < 0 || add_buffers(module) < 0
        || add_small_batches(module) < 0 || add_operators(module) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
