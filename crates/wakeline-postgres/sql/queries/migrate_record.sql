-- Records an applied migration.
INSERT INTO @schema@.migrations (name, checksum) VALUES ($1, $2)
