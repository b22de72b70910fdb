-- Records that all losses were reported.
UPDATE housekeeping
SET told_expired = expired, told_evicted = evicted, told_dropped = dropped
WHERE expired > told_expired OR evicted > told_evicted OR dropped > told_dropped
