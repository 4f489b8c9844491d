! Fortran's doors: the old module, the new one, the header (fortran_header.f90), and the place at the bottom of memory.
subroutine with_old_module(wrong)
  use mpi
  integer :: wrong, numbers(3), rank, root, ranks, error, type, place_type
  integer(kind=MPI_ADDRESS_KIND) :: place(1)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  do root = 0, ranks - 1
    numbers = merge(root + 7, -1, rank == root)
    call MPI_Bcast(numbers, 3, MPI_INTEGER, root, MPI_COMM_WORLD, error)
    wrong = wrong + count(numbers /= root + 7) + abs(error)
    call MPI_Barrier(MPI_COMM_WORLD, error)
  end do
  numbers = merge(5, -1, rank == 0)
  call MPI_Get_address(numbers, place(1), error)
  call MPI_Type_create_hindexed(1, (/3/), place, MPI_INTEGER, place_type, error)
  call MPI_Type_commit(place_type, error)
  call MPI_Bcast(MPI_BOTTOM, 1, place_type, 0, MPI_COMM_WORLD, error)
  wrong = wrong + count(numbers /= 5)
  call MPI_Type_free(place_type, error)
end subroutine

subroutine with_new_module(wrong)
  use mpi_f08
  integer :: wrong, rank
  integer, asynchronous :: numbers(2)
  type(MPI_Request) :: request
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  numbers = merge(11, -1, rank == 1)
  call MPI_Bcast(numbers, 2, MPI_INTEGER, 1, MPI_COMM_WORLD)
  wrong = wrong + count(numbers /= 11)
  numbers = merge(12, -1, rank == 0)
  call MPI_Ibcast(numbers, 2, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  wrong = wrong + count(numbers /= 12)
  call MPI_Barrier(MPI_COMM_WORLD)
end subroutine

program fortran
  use mpi
  integer :: wrong = 0, all_wrong, error, rank
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call with_old_module(wrong)
  call with_new_module(wrong)
  call with_header(wrong)
  call MPI_Reduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(A,I0,A)', 'fortran: ', all_wrong, ' wrong'
  call MPI_Finalize(error)
end program
