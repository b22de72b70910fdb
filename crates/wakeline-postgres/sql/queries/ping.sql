-- Checks whether a statement can be run.
SELECT 1
