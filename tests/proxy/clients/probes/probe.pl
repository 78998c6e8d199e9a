# Fetches URLs with HTTP::Tiny; each line of standard input is a JSON array of the proxy variables and a URL. Says "done" after each.
use strict;
use HTTP::Tiny;
use JSON::PP;

$| = 1;
my %kept = %ENV;
while ( my $line = <STDIN> ) {
    my ( $settings, $url ) = @{ decode_json($line) };
    %ENV = ( %kept, %$settings );
    # it dies where a proxy is none; the recorder knows whether one was asked
    eval { HTTP::Tiny->new( timeout => 5, verify_SSL => 0 )->get($url) };
    print "done\n";
}
