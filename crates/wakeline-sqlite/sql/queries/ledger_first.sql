-- When the first entry has been kept for long enough. Called by: ledger::first_due.
SELECT expires_at FROM ledger_entries ORDER BY expires_at LIMIT 1
