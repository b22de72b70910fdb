-- Listens to the hints of this schema.
LISTEN @channel@
