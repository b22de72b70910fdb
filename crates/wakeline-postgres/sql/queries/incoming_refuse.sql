-- Sets a row aside that cannot be pushed or emitted. Called by: IncomingPump.
UPDATE @schema@.incoming SET refused = $2 WHERE seq = $1
