-- Sets a lock timeout for this transaction that is shorter than its statement timeout. Used for a
-- turn whose last commit took too long.
SELECT set_config('lock_timeout', $1, true)
