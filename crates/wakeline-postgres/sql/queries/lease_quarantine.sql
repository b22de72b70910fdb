-- Quarantines corrupt messages.
SELECT @schema@.lease_quarantine($1, $2, $3, $4)
