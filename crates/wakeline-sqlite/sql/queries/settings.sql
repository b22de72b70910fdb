-- Settings of every connection. The two settings that durability depends on are read back
-- afterwards.
PRAGMA synchronous = FULL;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
PRAGMA cache_size = -32768;
PRAGMA journal_size_limit = 67108864;
