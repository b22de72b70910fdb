-- What is suspended.
-- Called by: Session::maintenance.
SELECT pushes, pops_paused FROM maintenance WHERE one = 1
