rem Between stops and starts: directories, files, services, and then the registry values of the services.
call :install
@AFTER@
