! Fortran's doors by way of mpif.h.
subroutine with_header(wrong)
  implicit none
  include 'mpif.h'
  integer :: wrong, rank, request, error, number
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  number = merge(13, -1, rank == 0)
  call MPI_BCAST(number, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
  wrong = wrong + merge(0, 1, number == 13) + abs(error)
  number = merge(14, -1, rank == 1)
  call MPI_IBCAST(number, 1, MPI_INTEGER, 1, MPI_COMM_WORLD, request, error)
  call MPI_WAIT(request, MPI_STATUS_IGNORE, error)
  wrong = wrong + merge(0, 1, number == 14) + abs(error)
  call MPI_BARRIER(MPI_COMM_WORLD, error)
  wrong = wrong + abs(error)
end subroutine
