-- Returns the migrations that were applied to this schema, with the checksums of their texts.
SELECT name, checksum FROM @schema@.migrations
