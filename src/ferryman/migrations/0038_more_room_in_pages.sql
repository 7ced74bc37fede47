-- P13: a new version of a task that finds no room in its own page is put wherever there is some, also into pages of a million
-- tasks that only wait: each of those then goes into the WAL as a whole. With half of each page left free one of eight new
-- versions has to go elsewhere, where it was one of two. What has ended takes a third more room on disk for it.
alter table ferryman.tasks set (fillfactor = 50);
