rem Between the stops and the starts: directories, files, services, and then the services' registry values.
call :install
@AFTER@
