#pragma once

// The C interface alone: the C++ bindings of old MPI versions are a library of their own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
