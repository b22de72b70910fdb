-- Records that a migration was applied, in the transaction that applies it.
INSERT INTO migrations (version, name, checksum) VALUES (?1, ?2, ?3)
