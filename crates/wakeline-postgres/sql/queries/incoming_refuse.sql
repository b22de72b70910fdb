-- Sets a row aside that can never be pushed. Called by: IncomingPump.
UPDATE @schema@.incoming SET refused = $2 WHERE seq = $1
