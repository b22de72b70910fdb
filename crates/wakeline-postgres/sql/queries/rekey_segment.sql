-- Replaces the payloads of a segment by the same ones, encrypted with the active key, unless
-- messages of it were deleted since it was read.
UPDATE @schema@.segments SET body = $3, ends = $4 WHERE partition_id = $1 AND first_offset = $2
    AND len = cardinality($4::integer[])
RETURNING true
