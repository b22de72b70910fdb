-- Changes what is suspended.
-- Called by: maintenance::set.
UPDATE maintenance SET pushes = ?1, pops_paused = ?2 WHERE one = 1
