-- Quarantines a row that cannot be pushed or emitted.
UPDATE @schema@.incoming SET refused = $2 WHERE seq = $1
