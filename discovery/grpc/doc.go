// Package grpcresolver lets gRPC find services by their names in ZooKeeper.
//
//	d, err := discovery.Open(ctx, keeper, "/services", discovery.Options{})
//	conn, err := grpc.NewClient("lockkeeper:///orders", grpc.WithResolvers(grpcresolver.New(d)),
//		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{})), // or insecure.NewCredentials(); gRPC wants one of them
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
//
// The endpoint of the target is the name of the service; a port behind it is ignored. gRPC gets all instances that are not disabled and have an
// address and a port, again whenever they change, and makes its own choice among them; Directory.Failed has no influence. Without instances calls fail, or wait if
// they are made with grpc.WaitForReady. While the Directory is cut off from the ensemble, gRPC keeps the instances that it
// has.
package grpcresolver
