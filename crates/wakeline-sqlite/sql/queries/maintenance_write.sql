-- Updates the maintenance state.
UPDATE maintenance SET pushes = ?1, pops_paused = ?2 WHERE one = 1
