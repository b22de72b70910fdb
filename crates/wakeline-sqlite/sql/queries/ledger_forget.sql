-- Removes some entries whose retention has ended.
DELETE FROM ledger_entries WHERE entry_id IN (
    SELECT entry_id FROM ledger_entries WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
