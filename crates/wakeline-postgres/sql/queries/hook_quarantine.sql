-- Quarantines corrupt rows.
SELECT @schema@.hook_quarantine($1, $2, $3, $4, $5)
