-- When the retention of the first entry ends.
SELECT expires_at FROM ledger_entries ORDER BY expires_at LIMIT 1
