-- Gives waits for locks in this transaction less time than its statements have.
-- Called by: FlowStore::commit_turn, for a turn whose last commit took too long.
SELECT set_config('lock_timeout', $1, true)
