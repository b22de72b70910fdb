-- The maintenance state: whether pushes and pops are suspended.
SELECT pushes, pops_paused FROM maintenance WHERE one = 1
